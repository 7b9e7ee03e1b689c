"""Sets of partitions, by topic id."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from services.group_coordinator.core.records import TopicPartitions

Partitions: TypeAlias = Mapping[bytes, frozenset[int]]
"""No set is empty. Never changed."""
Partition: TypeAlias = tuple[bytes, int]

NONE: Final[Partitions] = MappingProxyType({})


def read(found: Iterable[TopicPartitions]) -> Partitions:
    """As a record has them."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in found if partitions} or NONE


def of(assigned: Mapping[bytes, Iterable[int]]) -> Partitions:
    return {topic_id: frozenset(numbers) for topic_id, numbers in assigned.items() if numbers} or NONE


def written(partitions: Partitions) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(topic_id, tuple(sorted(partitions[topic_id]))) for topic_id in sorted(partitions))


def each(partitions: Partitions) -> Iterator[Partition]:
    for topic_id, numbers in partitions.items():
        for number in numbers:
            yield topic_id, number


def together(one: Partitions, other: Partitions) -> Partitions:
    if not one or not other:
        return one or other
    both = dict(one)
    for topic_id, numbers in other.items():
        both[topic_id] = both.get(topic_id, frozenset()) | numbers
    return both
