"""The answer to a metadata store that was restored from a backup (`libs/cluster/metadata_history.py`).

Each term begins with an entry in the history, and more follow when partitions change. If the controller's own mark, or the mark
of a storage node that registers, is of a branch that the store has not been through, then all partitions come into doubt
(`services/controller/core/elections/doubt.py`), and producer ids are skipped. The entry that says so is written last: after a
crash in between, the next term does it again.
"""

import asyncio
import logging
from collections.abc import Iterable

from libs.clock import Clock
from libs.cluster.image import ClusterImage
from libs.cluster.metadata_history import next_history, unanswered
from libs.cluster.records import STORAGE, MetadataMark
from libs.cluster.store import StoreUnavailable
from services.controller.core.elections.doubt import PRODUCER_IDS_SKIPPED, all_in_doubt
from services.controller.core.topics.topics import Randomness
from services.controller.term import writes
from services.controller.term.fenced_writer import Conflict, OutcomeUnknown
from services.controller.term.term import Term

log = logging.getLogger("controller")

NONCES = 1 << 53
RETRY_S = 0.5
ENTRY_EVERY_S = 1.0
"""So often at most an entry follows changes of partitions. Later changes of a lost branch are not noticed."""
WAY_OUT = (
    "start all nodes that host replicas; "
    "for one that is lost for good: docs/operate/restoring-metadata.md, A storage node that is lost too"
)


class RestoredStore:
    """The watch over the store's history, in one term."""

    def __init__(self, term: Term, random: Randomness, own_mark: MetadataMark, clock: Clock) -> None:
        self._term = term
        self._clock = clock
        self._random = random
        self._own_mark = own_mark
        self._recorded = ClusterImage()
        """The image whose partitions the newest entry covers."""

    async def begin(self) -> None:
        """Adds the term's first entry, before anybody is elected in it. Raises Deposed."""
        await self._record()

    async def run(self, pipeline: asyncio.Lock, changed: asyncio.Event) -> None:
        """Looks at the marks of storage nodes that register, and adds entries after partitions have changed. `changed` is set
        when either may be the case. Raises Deposed."""
        while True:
            await changed.wait()
            changed.clear()
            if self._lost():
                async with pipeline:
                    await self.answer_marks()
            elif self._term.image.partition_table is not self._recorded.partition_table:
                await self._record()
                await asyncio.sleep(ENTRY_EVERY_S)

    async def answer_marks(self) -> None:
        """Brings all partitions into doubt, if a storage node has registered with a mark of a lost branch. The caller holds the
        pipeline. Raises Deposed.

        Rule: it comes before any election that the registration allows. That election might give out an epoch that the lost
        branch has given to another node, whose followers would be cut to this one's log.
        """
        if self._lost():
            await self._record()

    def _lost(self) -> tuple[int, ...]:
        return unanswered(self._term.image, self._marks(self._term.image))

    def _marks(self, image: ClusterImage) -> Iterable[MetadataMark]:
        yield self._own_mark
        for member in image.members(STORAGE).values():
            yield member.seen

    async def _record(self) -> None:
        while True:
            term = self._term
            try:
                if lost := self._lost():
                    await self._doubt()
                image = term.image
                history = next_history(image, self._random.randrange(NONCES), lost, now_ms=self._clock.wall_ms())
                await term.commit(writes.history_change(image, history))
            except Conflict as conflict:
                await term.catch_up(conflict.revision)
            except (OutcomeUnknown, StoreUnavailable) as error:
                log.warning("history not written", extra={"fields": {"reason": str(error)}})
                await asyncio.sleep(RETRY_S)
            else:
                self._recorded = image
                return

    async def _doubt(self) -> None:
        term = self._term
        log.error(
            "metadata store is an older copy: each partition waits for the logs of all its replicas",
            extra={"fields": {"revision": term.image.revision, "way_out": WAY_OUT}},
        )
        await term.skip_producer_ids(PRODUCER_IDS_SKIPPED)
        await term.carry_out(lambda: all_in_doubt(term.image))
