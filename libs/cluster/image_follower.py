"""Keeps a process's cluster image at the store's revision, through outages and gaps.

Rule (DESIGN section 5): an outage of the store is not a death. Whatever happens, the last image stays. Who starts meanwhile may
borrow an image, and goes on from it until the store tells its own.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from libs.cluster import keys
from libs.cluster.backoff import Backoff
from libs.cluster.codec import RecordError
from libs.cluster.image import ClusterImage
from libs.cluster.store import MetadataStore, StoreUnavailable, WatchGap
from libs.cluster.watching import watching

log = logging.getLogger(__name__)

Subscriber = Callable[[ClusterImage, ClusterImage], None]
Borrow = Callable[[], Awaitable[ClusterImage | None]]
"""Asks others than the store for the newest image that they have. None: nobody has any."""

STORE_PATIENCE_S = 1.0
"""How long the store alone is waited for."""


class ImageFollower:
    """Lists once, then watches. Subscribers are called synchronously, in the order of their subscription, with (old, new).

    An image that changed nothing but its revision wakes `wait_for` and calls no subscriber.
    """

    def __init__(self, store: MetadataStore, borrow: Borrow | None = None) -> None:
        """Without `borrow` the first image is the store's own."""
        self._store = store
        self._borrow = borrow
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
        """The image is the store's own. One that was borrowed may be older than what this process knew in its last life."""
        return self._verified.is_set()

    async def until_verified(self) -> None:
        await self._verified.wait()

    async def start(self) -> None:
        """Returns with the first image. Tries for as long as that takes: bound it with `asyncio.timeout`."""
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._run(), name="cluster image follower")
            self._task.add_done_callback(self._ended)
            if self._borrow is not None:
                self._borrowing = loop.create_task(self._borrow_first(self._borrow), name="cluster image borrowing")
        await self._reached(1)

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Returns what ends the subscription. The current image is not announced: read `image`."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    async def wait_for(self, revision: int, timeout_s: float) -> ClusterImage:
        """The first image at or past `revision`, which must be one that wrote below our prefix. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self._reached(revision)
        return self._image

    async def close(self) -> None:
        """Ends the following; the image stays readable. Who still waits is cancelled."""
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
            self._waiting = [(wanted, other) for wanted, other in self._waiting if other is not waiter]

    async def _run(self) -> None:
        backoff = Backoff()
        while True:
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
        await asyncio.sleep(STORE_PATIENCE_S)
        while self._image.revision == 0:
            try:
                borrowed = await borrow()
            except Exception:
                log.exception("no image could be borrowed")
                borrowed = None
            if borrowed is not None and self._image.revision == 0:
                told = {"revision": borrowed.revision, "cluster_id": borrowed.cluster_id}
                log.warning("goes on with the metadata of a peer, since the store does not answer", extra={"fields": told})
                self._advance(borrowed)
                return
            await asyncio.sleep(backoff.next_s())

    async def _list(self) -> bool:
        listed = await self._store.range(keys.PREFIX)
        old = self._image
        # What was borrowed is not believed beyond its revision: a peer of an older version may not have known all fields.
        new = old.relisted(listed) if self.verified else ClusterImage.from_range(listed)
        if new.revision < old.revision or (old.cluster_id and new.cluster_id != old.cluster_id):
            # Restored from a backup, or another cluster's store. Following it would delete what it does not know of.
            was = {"revision": old.revision, "cluster_id": old.cluster_id}
            found = {"found_revision": new.revision, "found_cluster_id": new.cluster_id}
            log.error("metadata store is not the one that we knew", extra={"fields": was | found})
            return False
        unchanged = self.verified and new.revision == old.revision
        if old.revision and not self.verified:
            log.info("metadata are the store's own again", extra={"fields": {"was": old.revision, "revision": new.revision}})
        self._verified.set()
        self._advance(new, quiet=unchanged)
        return True

    async def _watch(self) -> None:
        async with watching(self._store, keys.PREFIX, self._image.revision + 1) as batches:
            async for batch in batches:
                self._advance(self._image.apply(batch), quiet=not batch.events)

    def _advance(self, new: ClusterImage, *, quiet: bool = False) -> None:
        old, self._image = self._image, new
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
