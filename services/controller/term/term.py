"""One term of office: the right to write, and an image that holds all that was written in it so far."""

import asyncio
import logging
from collections.abc import Callable, Iterable

from libs.cluster import keys
from libs.cluster.codec import decode, encode
from libs.cluster.election import Leadership
from libs.cluster.follower import ImageFollower
from libs.cluster.image import ClusterImage
from libs.cluster.records import PartitionState
from libs.cluster.store import MetadataStore, ModRevisionIs, Outcome, Put
from libs.rpc.contracts.controller import ProducerIdBlock
from services.controller import writes
from services.controller.core.producer_ids import next_block
from services.controller.fencing import Conflict, Deposed, FencedWriter, Unsettled
from services.controller.writes import Write

log = logging.getLogger(__name__)

ALLOCATION_ATTEMPTS = 10

ATTEMPTS = 5
"""Times that something is decided anew because the image was behind."""

AT_ONCE = 4
"""Transactions in flight together: a node with 5,000 partitions needs 84 of them, each a sync of etcd's disk."""


Changed = list[tuple[bytes, int, PartitionState]]
"""New states of partitions."""


class Term:
    """Made when elected, dropped when deposed. One mutation at a time, each decided on `image` after the one before it."""

    def __init__(self, store: MetadataStore, follower: ImageFollower, leadership: Leadership, *, patience_s: float) -> None:
        self.leadership = leadership
        self._store = store
        self._follower = follower
        self._writer = FencedWriter(store, leadership, give_up_after_s=patience_s)
        self._patience_s = patience_s
        self.unfinished = False
        """A write failed, so that partitions without a topic may lie about."""
        self.in_doubt: set[tuple[bytes, int]] = set()
        """Partitions of which a write may still be applied, however late: until another one was."""

    @property
    def image(self) -> ClusterImage:
        return self._follower.image

    async def begin(self) -> None:
        """Waits until the image holds the election, and with it everything that earlier controllers ever wrote."""
        while self._follower.image.revision < self.leadership.guard.revision:
            if self.leadership.lost.is_set():
                raise Deposed
            try:
                await self._follower.wait_for(self.leadership.guard.revision, self._patience_s)
            except TimeoutError:
                log.warning("elected, but the image is behind", extra={"fields": {"revision": self._follower.image.revision}})

    async def commit(self, write: Write) -> int:
        """Applies `write` and waits until the image shows it. Raises Conflict, Deposed and Unsettled."""
        try:
            revision = await self._writer.commit(write)
            await self.reach(revision)
        except (Conflict, Unsettled):
            self.unfinished = True
            raise
        return revision

    async def apply(self, write: Write) -> int:
        """Like `commit` without the waiting, for writes that do not depend on each other: `reach` the last one's revision."""
        return await self._writer.commit(write)

    async def commit_all(self, wanted: Iterable[Write]) -> int:
        """Applies writes that do not depend on each other, and waits until the image shows them: the newest revision, or 0.

        Raises Conflict, Deposed and Unsettled, once those that were under way have ended.
        """
        queue = iter(wanted)
        newest = 0

        async def work() -> None:
            nonlocal newest
            for write in queue:
                newest = max(newest, await self.apply(write))

        for outcome in await asyncio.gather(*(work() for _ in range(AT_ONCE)), return_exceptions=True):
            if outcome is not None:
                raise outcome
        if newest:
            await self.reach(newest)
        return newest

    async def carry_out(self, decide: Callable[[], Changed]) -> tuple[Changed, int]:
        """Writes what is decided on the image, and decides again where that was behind: what was written, and the revision at
        which all of it holds. Raises Deposed and Unsettled."""
        for _ in range(ATTEMPTS):
            image = self.image
            changed = decide()
            written = {(topic_id, index) for topic_id, index, _ in changed}
            self.in_doubt |= written
            try:
                revision = await self.commit_all(writes.partition_changes(image, changed)) or image.revision
            except Conflict as conflict:
                await self.catch_up(conflict.revision)
            else:
                self.in_doubt -= written
                return changed, revision
        raise Unsettled("the image was behind each time")

    async def reach(self, revision: int) -> None:
        """Decisions wait here for the image. Raises Unsettled when it does not come: to go on would be to decide blindly."""
        try:
            await self._follower.wait_for(revision, self._patience_s)
        except TimeoutError:
            raise Unsettled(f"the image has not reached revision {revision} within {self._patience_s:.0f} s") from None

    async def catch_up(self, revision: int) -> None:
        """After a conflict: the store was at `revision`, which need not be of a key that the image holds, so do not insist."""
        try:
            await self._follower.wait_for(revision, min(1.0, self._patience_s))
        except TimeoutError:
            log.info("image behind the store", extra={"fields": {"revision": self._follower.image.revision, "store": revision}})

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """A block that nobody ever had. An allocation whose outcome is unknown is left behind, never handed out.

        To read it back would not do: a successor may have written the same number for a block of its own.
        """
        for _ in range(ALLOCATION_ATTEMPTS):
            found = await self._store.get(keys.PRODUCER_IDS)
            block, next_id = next_block(decode(int, found.value) if found is not None else 0)
            guard = ModRevisionIs(keys.PRODUCER_IDS, found.mod_revision if found is not None else 0)
            write = Put(keys.PRODUCER_IDS, encode(next_id))
            result = await self._store.txn([self.leadership.guard, guard], [write])
            if result.outcome is Outcome.OK:
                return block
            await self._writer.check_elected()
        raise Unsettled("no block of producer ids could be written")
