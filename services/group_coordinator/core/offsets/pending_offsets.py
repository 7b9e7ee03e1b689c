"""Offsets of open transactions: they take effect once a marker commits their producer's transaction.

Of several commits for one partition the last in the log counts, as in Kafka. So whatever takes effect removes older pending
offsets of its partition, and a partition of which nothing is pending any more is stable.
"""

from collections.abc import Iterator, Mapping
from sys import intern
from typing import NamedTuple

from libs.coordinator.core.tables import Journal, Table
from services.group_coordinator.core.model.records import OffsetCommitted, OffsetPending, TransactionEnded


class _Pending(NamedTuple):
    place: int
    """It rises in the order of the log."""
    committed: OffsetCommitted


_Partition = tuple[str, str, int]
"""Group, topic and partition index."""


class PendingOffsets:
    """A transaction has an entry from its first commit to its marker, even if other commits have replaced all its offsets."""

    __slots__ = ("_by_group", "_epochs", "_journal", "_offsets", "_place")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._epochs: Table[int, int] = Table(journal)
        self._offsets: Table[int, Table[_Partition, _Pending]] = Table(journal)
        """By producer id."""
        self._by_group: Table[str, Table[tuple[str, int], frozenset[int]]] = Table(journal)
        """The producer ids of each partition with pending offsets."""
        self._place = 0

    def __contains__(self, group: object) -> bool:
        return group in self._by_group

    def groups(self) -> Iterator[str]:
        return iter(self._by_group)

    def groups_of(self, producer_id: int) -> set[str]:
        """The groups that have pending offsets of the producer's open transaction."""
        return {group for group, _, _ in self._offsets.get(producer_id, ())}

    def epoch_of(self, producer_id: int) -> int | None:
        """The epoch of the producer's open transaction."""
        return self._epochs.get(producer_id)

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        partitions = self._by_group.get(group)
        return partitions is not None and (topic, partition) in partitions

    def of(self, group: str) -> Mapping[tuple[str, int], frozenset[int]]:
        """The producers that have a pending offset, by topic and index of the partition."""
        return self._by_group.get(group, {})

    # -- changes ------------------------------------------------------------------------------------------------------------

    def put(self, record: OffsetPending) -> None:
        producer_id, epoch, committed = record
        if self._epochs.get(producer_id) != epoch:
            self._epochs[producer_id] = epoch
        offsets = self._offsets.get(producer_id)
        if offsets is None:
            offsets = self._offsets[producer_id] = Table(self._journal)
        self._place += 1
        offsets[_partition_of(committed)] = _Pending(self._place, committed)
        partitions = self._by_group.get(committed.group)
        if partitions is None:
            partitions = self._by_group[committed.group] = Table(self._journal)
        key = intern(committed.topic), committed.partition
        partitions[key] = partitions.get(key, frozenset()) | {producer_id}

    def end(self, ended: TransactionEnded) -> list[OffsetCommitted]:
        """Ends the producer's transaction. Returns the offsets that take effect."""
        self._epochs.pop(ended.producer_id, None)
        offsets = self._offsets.pop(ended.producer_id, None)
        if offsets is None:
            return []
        for group, topic, partition in offsets:
            self._forget_producer(group, (topic, partition), ended.producer_id)
        if not ended.commits:
            return []
        for pending in offsets.values():
            self.replace(*_partition_of(pending.committed), before=pending.place)
        return [pending.committed for pending in offsets.values()]

    def replace(self, group: str, topic: str, partition: int, before: int | None = None) -> None:
        """Removes the partition's pending offsets, since a later commit or deletion took effect. `before`: only those with a
        lower place."""
        partitions = self._by_group.get(group)
        if partitions is None:
            return
        for producer_id in partitions.get((topic, partition), ()):
            offsets = self._offsets[producer_id]
            if before is None or offsets[group, topic, partition].place < before:
                del offsets[group, topic, partition]
                self._forget_producer(group, (topic, partition), producer_id)

    def _forget_producer(self, group: str, key: tuple[str, int], producer_id: int) -> None:
        partitions = self._by_group[group]
        left = partitions[key] - {producer_id}
        if left:
            partitions[key] = left
        else:
            del partitions[key]
            if not partitions:
                del self._by_group[group]


def _partition_of(committed: OffsetCommitted) -> _Partition:
    return committed.group, intern(committed.topic), committed.partition
