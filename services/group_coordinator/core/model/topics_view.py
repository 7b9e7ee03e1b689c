"""The view of topics that groups decide by, at one moment. The shell makes a new one when topics change."""

from collections.abc import Iterable, Mapping
from dataclasses import field

from libs.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TopicView:
    topic_id: bytes
    name: str
    partitions: int
    racks: tuple[frozenset[str], ...] = ()
    """The racks of each partition's replicas. Empty if no node has a rack."""


@dataclass(frozen=True, slots=True)
class TopicsView:
    """All topics. Immutable. `version` rises with each view that differs from the one before."""

    version: int = 0
    by_name: Mapping[str, TopicView] = field(default_factory=dict)
    by_id: Mapping[bytes, TopicView] = field(default_factory=dict)
    restored_ms: int = 0
    """`MetadataHistory.restored_ms`: what was created before it may be missing, though nobody deleted it."""

    @classmethod
    def of(cls, version: int, topics: Iterable[TopicView]) -> "TopicsView":
        listed = list(topics)
        return cls(version, {topic.name: topic for topic in listed}, {topic.topic_id: topic for topic in listed})
