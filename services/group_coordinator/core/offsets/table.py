"""Which offset each group committed last for each partition."""

from collections.abc import Iterable, Iterator
from sys import intern

from libs.runtime.shards.tables import Journal, Table
from services.group_coordinator.core.records import OffsetCommitted, OffsetRemoved


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
