"""The table of committed offsets: the latest of each group and partition."""

from collections.abc import Iterable, Iterator
from sys import intern

from libs.coordinator.core.tables import Journal, Table
from libs.wire.primitives import NO_UUID
from services.group_coordinator.core.model.records import OffsetCommitted, OffsetRemoved
from services.group_coordinator.core.model.topics_view import TopicsView


def is_gone(committed: OffsetCommitted, topics: TopicsView) -> bool:
    """Whether the offset's topic was deleted, even if a new topic has its name.

    If the topic existed when an owner accepted the commit, the next owner knows it, or it was deleted since. An owner knows all
    metadata that was written before it got the shard.
    """
    return committed.topic_id != NO_UUID and committed.topic_id not in topics.by_id


class OffsetTable:
    """Committed offsets by group. A group has an entry while it has an offset."""

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
        """Removes an offset, if there is one: a compacted log may have the tombstone alone."""
        offsets = self._groups.get(removed.group)
        if offsets is None:
            return
        offsets.pop((removed.topic, removed.partition), None)
        if not offsets:
            del self._groups[removed.group]
