"""Sets of partitions, by topic id."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from services.group_coordinator.core.model.records import TopicPartitions

Partitions: TypeAlias = Mapping[bytes, frozenset[int]]
"""Topic id → partition numbers. No set is empty, and none is changed."""
Partition: TypeAlias = tuple[bytes, int]

NONE: Final[Partitions] = MappingProxyType({})


def read(recorded: Iterable[TopicPartitions]) -> Partitions:
    """The partitions of a record."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in recorded if partitions} or NONE


def of(assigned: Mapping[bytes, Iterable[int]]) -> Partitions:
    return {topic_id: frozenset(numbers) for topic_id, numbers in assigned.items() if numbers} or NONE


def written(partitions: Partitions) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(topic_id, tuple(sorted(partitions[topic_id]))) for topic_id in sorted(partitions))


def each(partitions: Partitions) -> Iterator[Partition]:
    for topic_id, numbers in partitions.items():
        for number in numbers:
            yield topic_id, number


def union(first: Partitions, second: Partitions) -> Partitions:
    if not first or not second:
        return first or second
    both = dict(first)
    for topic_id, numbers in second.items():
        both[topic_id] = both.get(topic_id, frozenset()) | numbers
    return both
