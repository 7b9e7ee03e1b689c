"""Which offset each group committed last for each partition."""

from collections.abc import Iterable, Iterator
from sys import intern

from libs.runtime.shards.tables import Journal, Table
from libs.wire.primitives import NO_UUID
from services.group_coordinator.core.records import OffsetCommitted, OffsetRemoved
from services.group_coordinator.core.topics_view import TopicsView


def is_gone(committed: OffsetCommitted, topics: TopicsView) -> bool:
    """Its topic was deleted, whatever has the name now.

    A topic that was there when its owner let the commit in is there for the next owner too, or was deleted since: whoever owns a
    shard knows all that the cluster had decided before it was given that shard.
    """
    return committed.topic_id != NO_UUID and committed.topic_id not in topics.by_id


class OffsetTable:
    """A group is here as long as it has an offset."""

    __slots__ = ("_groups", "_journal")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._groups: Table[str, Table[tuple[str, int], OffsetCommitted]] = Table(journal)

    def __contains__(self, group: object) -> bool:
        return group in self._groups

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def get(self, group: str, topic: str, partition: int) -> OffsetCommitted | None:
        offsets = self._groups.get(group)
        return offsets.get((topic, partition)) if offsets is not None else None

    def of(self, group: str) -> Iterable[OffsetCommitted]:
        offsets = self._groups.get(group)
        return offsets.values() if offsets is not None else ()

    def size(self, group: str) -> int:
        offsets = self._groups.get(group)
        return len(offsets) if offsets is not None else 0

    def put(self, committed: OffsetCommitted) -> None:
        offsets = self._groups.get(committed.group)
        if offsets is None:
            offsets = self._groups[committed.group] = Table(self._journal)
        offsets[intern(committed.topic), committed.partition] = committed

    def remove(self, removed: OffsetRemoved) -> None:
        """Of what is not there as well: a compacted log may have the tombstone alone."""
        offsets = self._groups.get(removed.group)
        if offsets is None:
            return
        offsets.pop((removed.topic, removed.partition), None)
        if not offsets:
            del self._groups[removed.group]
