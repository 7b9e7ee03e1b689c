"""One term: the right to write, and an image that holds all writes of the term."""

import asyncio
import logging
from collections.abc import Callable, Iterable

from libs.cluster import keys
from libs.cluster.codec import decode, encode
from libs.cluster.election import Leadership
from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import PartitionState
from libs.cluster.store import KeyValue, MetadataStore, ModRevisionIs, Outcome, Put, RangeResult
from libs.rpc.contracts.controller import ProducerIdBlock
from services.controller.core.administration.producer_ids import next_block
from services.controller.term import state_log, writes
from services.controller.term.fenced_writer import Conflict, Deposed, FencedWriter, OutcomeUnknown, WriteDenied
from services.controller.term.writes import Write

log = logging.getLogger("controller")

ALLOCATION_ATTEMPTS = 10

ATTEMPTS = 5
"""How often a decision is repeated when the image was behind."""

TRANSACTIONS_IN_FLIGHT_MAX = 4
"""Transactions in flight at a time. A node with 5,000 partitions needs 84 of them, each a sync of etcd's disk."""


Changed = list[tuple[bytes, int, PartitionState]]
"""New states of partitions."""


class Term:
    """The term of one elected controller. It makes one change at a time, each decided on `image` after the one before."""

    def __init__(self, store: MetadataStore, follower: ImageFollower, leadership: Leadership, *, write_timeout_s: float) -> None:
        self.leadership = leadership
        self._store = store
        self._follower = follower
        self._writer = FencedWriter(store, leadership, give_up_after_s=write_timeout_s)
        self._write_timeout_s = write_timeout_s
        self.unfinished = False
        """Whether a write failed, which may have left partitions without a topic."""
        self.in_doubt: set[tuple[bytes, int]] = set()
        """Partitions of which a write may still be applied later. A later successful write ends that."""

    @property
    def image(self) -> ClusterImage:
        return self._follower.image

    async def begin(self) -> None:
        """Waits until the image holds the election, and with it all writes of earlier controllers."""
        while self._follower.image.revision < self.leadership.guard.revision:
            if self.leadership.lost.is_set():
                raise Deposed
            try:
                await self._follower.wait_for(self.leadership.guard.revision, self._write_timeout_s)
            except TimeoutError:
                log.warning("elected, but the image is behind", extra={"fields": {"revision": self._follower.image.revision}})

    async def commit(self, write: Write) -> int:
        """Applies `write`, and waits until the image shows it. Raises Conflict, Deposed and OutcomeUnknown."""
        try:
            revision = await self._writer.commit(write)
            await self.reach(revision)
        except (Conflict, OutcomeUnknown):
            self.unfinished = True
            raise
        return revision

    async def apply(self, write: Write) -> int:
        """Applies a write that others do not depend on. `reach` the last one's revision afterwards."""
        return await self._writer.commit(write)

    async def commit_all(self, independent: Iterable[Write]) -> int:
        """Applies independent writes, and waits until the image shows them. Returns the newest revision, or 0.

        Raises Conflict, Deposed and OutcomeUnknown, after the writes in flight have ended.
        """
        queue = iter(independent)
        newest = 0

        async def work() -> None:
            nonlocal newest
            for write in queue:
                newest = max(newest, await self.apply(write))

        for outcome in await asyncio.gather(*(work() for _ in range(TRANSACTIONS_IN_FLIGHT_MAX)), return_exceptions=True):
            if outcome is not None:
                raise outcome
        if newest:
            await self.reach(newest)
        return newest

    async def carry_out(self, decide: Callable[[], Changed], *, why: str = "") -> tuple[Changed, int]:
        """Writes what `decide` returns, and decides again if the image was behind. Returns the changes, and a revision at which
        all of them hold. `why` is for the log. Raises Deposed and OutcomeUnknown."""
        for _ in range(ATTEMPTS):
            image = self.image
            changed = decide()
            state_log.decided(image, changed, why=why)
            written = {(topic_id, index) for topic_id, index, _ in changed}
            self.in_doubt |= written
            try:
                revision = await self.commit_all(writes.partition_changes(image, changed)) or image.revision
            except Conflict as conflict:
                await self.catch_up(conflict.revision)
            else:
                self.in_doubt -= written
                state_log.written(len(changed), revision)
                return changed, revision
        raise OutcomeUnknown("the image was behind each time")

    async def reach(self, revision: int) -> None:
        """Waits until the image reaches `revision`. Raises OutcomeUnknown if it does not: further decisions would rest on an old
        image."""
        try:
            await self._follower.wait_for(revision, self._write_timeout_s)
        except TimeoutError:
            raise OutcomeUnknown(f"the image has not reached revision {revision} within {self._write_timeout_s:.0f} s") from None

    async def catch_up(self, revision: int) -> None:
        """Waits a moment for `revision` after a conflict. The image may never reach it, since it may concern a key that the image
        does not hold."""
        try:
            await self._follower.wait_for(revision, min(1.0, self._write_timeout_s))
        except TimeoutError:
            log.info("image behind the store", extra={"fields": {"revision": self._follower.image.revision, "store": revision}})

    async def stored_scram(self) -> RangeResult:
        """Users' SCRAM credentials, which no image holds. Raises StoreUnavailable."""
        return await self._store.range(keys.SCRAM)

    async def skip_producer_ids(self, count: int) -> None:
        """Gives none of the next `count` producer ids away. Raises Deposed, OutcomeUnknown and StoreUnavailable."""
        for _ in range(ALLOCATION_ATTEMPTS):
            stored = await self._store.get(keys.PRODUCER_IDS)
            next_id = (decode(int, stored.value) if stored is not None else 0) + count
            if await self._put_next_producer_id(stored, next_id):
                return
        raise OutcomeUnknown("no producer ids could be skipped")

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """A block of producer ids that was never given away. One whose allocation has an unknown outcome is skipped.

        Reading it back would prove nothing: a successor may have written the same number for its own block.
        """
        for _ in range(ALLOCATION_ATTEMPTS):
            stored = await self._store.get(keys.PRODUCER_IDS)
            block, next_id = next_block(decode(int, stored.value) if stored is not None else 0)
            if await self._put_next_producer_id(stored, next_id):
                return block
        raise OutcomeUnknown("no block of producer ids could be written")

    async def _put_next_producer_id(self, stored: KeyValue | None, next_id: int) -> bool:
        """False: it was not written, or nobody knows. Raises Deposed, WriteDenied and StoreUnavailable."""
        guard = ModRevisionIs(keys.PRODUCER_IDS, stored.mod_revision if stored is not None else 0)
        result = await self._store.txn([self.leadership.guard, guard], [Put(keys.PRODUCER_IDS, encode(next_id))])
        if result.outcome is Outcome.DENIED:
            raise WriteDenied
        if result.outcome is not Outcome.OK:
            await self._writer.check_elected()
            return False
        return True
