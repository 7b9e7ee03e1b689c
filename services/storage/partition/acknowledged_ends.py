"""Questions that name the end of a log. They wait until readers may see all that was acknowledged before them.

A Produce with acks=0 or 1 is answered before its records are committed. On a `synced` topic a round of syncs has to follow, and
rounds for which nobody waits are apart. A client that asks for the end would be told of fewer records than it has stored. So such
a question starts a round at once, as a reader does that waits at the end of the log.

What waits for acks=all is not acknowledged yet, and no question waits for it.
"""

import asyncio
from collections.abc import Collection, Iterable

from services.storage.partition.partition import Key, Partition
from services.storage.partition.partition_table import PartitionTable

END_S_MAX = 0.5
"""The longest wait. A gateway waits for a second. A follower that is away holds up the high watermark for longer."""


class _Question:
    """One request that waits. `ends` has each partition where readers may not see the acknowledged end yet, with that end."""

    __slots__ = ("ends", "shown")

    def __init__(self, ends: dict[Key, tuple[Partition, int]], shown: "asyncio.Future[None]") -> None:
        self.ends = ends
        self.shown = shown


class AcknowledgedEnds:
    """`wake` is called when a partition's high watermark, leader or existence changed."""

    def __init__(self, partitions: PartitionTable) -> None:
        self._partitions = partitions
        self._waiting: dict[Key, dict[_Question, None]] = {}
        self._stopping = False

    def hides_any(self, keys: Iterable[Key]) -> bool:
        """Whether `shown` would wait."""
        by_key = self._partitions.by_key
        return any((partition := by_key.get(key)) is not None and _hides(partition) for key in keys)

    async def shown(self, keys: Collection[Key]) -> None:
        """Returns when readers may see what is acknowledged now, or after `END_S_MAX`."""
        by_key = self._partitions.by_key
        hiding = [partition for key in keys if (partition := by_key.get(key)) is not None and _hides(partition)]
        if not hiding or self._stopping:
            return
        ends = {partition.key: (partition, partition.acknowledged_end) for partition in hiding}
        question = _Question(ends, asyncio.get_running_loop().create_future())
        for key in ends:
            self._waiting.setdefault(key, {})[question] = None
        for partition in hiding:
            partition.sync.mark_urgent()
            partition.sync.start_round()
        try:
            async with asyncio.timeout(END_S_MAX):
                await question.shown
        except TimeoutError:
            pass
        finally:
            for key in list(question.ends):
                self._forget(key, question)

    def wake(self, key: Key) -> None:
        for question in list(self._waiting.get(key, ())):
            partition, end = question.ends[key]
            if not _hides(partition) or partition.high_watermark >= end:
                self._forget(key, question)
                if not question.ends and not question.shown.done():
                    question.shown.set_result(None)

    def close(self) -> None:
        """Ends all waits, since the node stops. Later questions do not wait."""
        self._stopping = True
        for questions in self._waiting.values():
            for question in questions:
                if not question.shown.done():
                    question.shown.set_result(None)

    def _forget(self, key: Key, question: _Question) -> None:
        del question.ends[key]
        waiting = self._waiting[key]
        del waiting[question]
        if not waiting:
            del self._waiting[key]


def _hides(partition: Partition) -> bool:
    """Whether acknowledged records are beyond the high watermark, and a round of syncs may soon change that."""
    replica = partition.replica
    return (
        min(partition.acknowledged_end, partition.log_end_offset) > replica.high_watermark
        and replica.leading
        and replica.in_sync >= replica.min_in_sync
        and not (partition.offline or partition.is_behind or partition.sync.stalled)
    )
