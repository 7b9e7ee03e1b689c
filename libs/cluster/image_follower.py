"""The follower that keeps a process's cluster image at the store's revision, through outages and gaps.

Rule (docs/rules.md): an outage of the store is not a death. Whatever happens, the last image stays. A process that starts during
an outage may borrow an image, and continues from it until the store answers.

Rule: the store may go back in time. No image may follow on one of another history: epochs and revisions would fall, and topics
that the store does not know would count as deleted. So the following ends there, and the process starts anew.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from libs.cluster import keys
from libs.cluster.backoff import Backoff
from libs.cluster.codec import RecordError
from libs.cluster.image import ClusterImage
from libs.cluster.metadata_history import lost_nonces, mark_of, went_back
from libs.cluster.scoped_watch import scoped_watch
from libs.cluster.store import MetadataStore, StoreUnavailable, WatchGap

log = logging.getLogger("metadata")

Subscriber = Callable[[ClusterImage, ClusterImage], None]
Borrow = Callable[[], Awaitable[ClusterImage | None]]
"""A function that asks peers, and not the store, for their newest image. None: no peer has one."""

STORE_TIMEOUT_S = 1.0
"""How long a start waits for the store before it asks peers."""


class ImageFollower:
    """Keeps an image up to date: it lists the store once, then watches it. Subscribers are called synchronously with (old, new),
    in the order of their subscription.

    An image that changed nothing but its revision wakes `wait_for` and calls no subscriber.
    """

    def __init__(
        self,
        store: MetadataStore,
        borrow: Borrow | None = None,
        *,
        on_went_back: Callable[[ClusterImage], None] | None = None,
    ) -> None:
        """Without `borrow` the first image is the store's own.

        `on_went_back` is called once with the last image when the store has gone back in time, and ends the process. Without it,
        the last image stays.
        """
        self._store = store
        self._borrow = borrow
        self._on_went_back = on_went_back
        self.store_went_back = False
        """Whether the store has gone back in time. The image is of a lost branch, and no other one follows."""
        self._borrowing: asyncio.Task[None] | None = None
        self._verified = asyncio.Event()
        self._image = ClusterImage()
        self._subscribers: list[Subscriber] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    @property
    def image(self) -> ClusterImage:
        """Revision 0 and empty until `start` has returned."""
        return self._image

    @property
    def verified(self) -> bool:
        """Whether the image is the store's own. A borrowed image may be older than what this process knew before its restart."""
        return self._verified.is_set()

    async def until_verified(self) -> None:
        await self._verified.wait()

    async def start(self) -> None:
        """Returns when the first image is there. It tries for as long as that takes: bound it with `asyncio.timeout`."""
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._run(), name="cluster image follower")
            self._task.add_done_callback(self._ended)
            if self._borrow is not None:
                self._borrowing = loop.create_task(self._borrow_first(self._borrow), name="cluster image borrowing")
        await self._reached(1)

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Returns a function that ends the subscription. The current image is not announced: read `image`."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    async def wait_for(self, revision: int, timeout_s: float) -> ClusterImage:
        """The first image at or past `revision`, which must be the revision of a write below our prefix. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self._reached(revision)
        return self._image

    async def close(self) -> None:
        """Stops following the store. The image stays readable, and callers that still wait are cancelled."""
        ending = [task for task in (self._task, self._borrowing) if task is not None]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for _, waiter in self._waiting:
            waiter.cancel()

    async def _reached(self, revision: int) -> None:
        if self._failure is not None:
            raise RuntimeError("the cluster image is no longer followed") from self._failure
        if self._image.revision >= revision:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append((revision, waiter))
        try:
            await waiter
        finally:
            self._waiting = [(target, other) for target, other in self._waiting if other is not waiter]

    async def _run(self) -> None:
        backoff = Backoff()
        while not self.store_went_back:
            try:
                if await self._list():
                    backoff.reset()
                    await self._watch()
            except StoreUnavailable as error:
                log.warning("metadata store unavailable", extra=self._fields(error))
            except WatchGap as error:
                log.info("metadata watch lost its place", extra=self._fields(error))
            except RecordError as error:
                # Treating a record that we cannot read as absent could delete what it describes: stay where we are.
                log.error("metadata unreadable", extra=self._fields(error))
            await asyncio.sleep(backoff.next_s())

    async def _borrow_first(self, borrow: Borrow) -> None:
        backoff = Backoff(0.2, 2.0)
        await asyncio.sleep(STORE_TIMEOUT_S)
        while self._image.revision == 0:
            try:
                borrowed = await borrow()
            except Exception:
                log.exception("asking the peers for an image failed")
                borrowed = None
            if borrowed is not None and self._image.revision == 0:
                details = {"revision": borrowed.revision, "cluster_id": borrowed.cluster_id}
                log.warning(
                    "uses the cluster image of a peer, since the metadata store does not answer", extra={"fields": details}
                )
                self._advance(borrowed)
                return
            await asyncio.sleep(backoff.next_s())

    async def _list(self) -> bool:
        listed = await self._store.range(keys.PREFIX)
        old = self._image
        # Of a borrowed image only the revision is believed: a peer of an older version may not have known all fields.
        new = old.relisted(listed) if self.verified else ClusterImage.from_range(listed)
        if old.cluster_id and new.cluster_id != old.cluster_id:
            # To follow another cluster's store, or an empty one, would delete everything that it does not know.
            was = {"revision": old.revision, "cluster_id": old.cluster_id}
            found = {"found_revision": new.revision, "found_cluster_id": new.cluster_id}
            log.error("metadata store is another one", extra={"fields": was | found})
            return False
        if went_back(old, new, listed) if self.verified else new.revision < old.revision:
            self._end_following(new)
            return False
        unchanged = self.verified and new.revision == old.revision
        if old.revision and not self.verified:
            log.info(
                "cluster image comes from the metadata store again",
                extra={"fields": {"was": old.revision, "revision": new.revision}},
            )
        self._verified.set()
        self._advance(new, quiet=unchanged)
        return True

    async def _watch(self) -> None:
        """Follows the store until its watch was interrupted."""
        async with scoped_watch(self._store, keys.PREFIX, self._image.revision + 1) as batches:
            async for batch in batches:
                if batch.resumed:
                    return
                new = self._image.apply(batch)
                if new.history is not self._image.history and lost_nonces(new, mark_of(self._image)):
                    self._end_following(new)
                    return
                self._advance(new, quiet=not batch.events)

    def _end_following(self, found: ClusterImage) -> None:
        """The store has gone back in time. With nobody to end the process, the last image stays, and the store is looked at
        again."""
        was = {"revision": self._image.revision, "found_revision": found.revision}
        log.error("metadata store went back in time: it was restored from a backup", extra={"fields": was})
        if self._on_went_back is not None:
            self.store_went_back = True
            self._on_went_back(self._image)

    def _advance(self, new: ClusterImage, *, quiet: bool = False) -> None:
        old, self._image = self._image, new
        if new is not old:
            log.debug("image of another revision", extra={"fields": {"was": old.revision, "revision": new.revision}})
        if not quiet and new is not old:
            for subscriber in tuple(self._subscribers):
                try:
                    subscriber(old, new)
                except Exception:
                    log.exception("subscriber to the cluster image failed", extra={"fields": {"revision": new.revision}})
        for revision, waiter in self._waiting:
            if new.revision >= revision and not waiter.done():
                waiter.set_result(None)

    def _fields(self, reason: Exception) -> dict[str, object]:
        return {"fields": {"reason": str(reason), "revision": self._image.revision}}

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (failure := task.exception()) is None:
            return
        self._failure = failure
        log.critical("the cluster image is no longer followed", exc_info=failure)
        for _, waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(RuntimeError("the cluster image is no longer followed"))
