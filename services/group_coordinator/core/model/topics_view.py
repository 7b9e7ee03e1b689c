"""What groups need to know of topics, as of one moment. The shell makes one of each image in which topics changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TopicView:
    topic_id: bytes
    name: str
    partitions: int
    racks: tuple[frozenset[str], ...] = ()
    """Where the replicas of each partition are; empty where no node has a rack."""


@dataclass(frozen=True, slots=True)
class TopicsView:
    """Immutable. `version` rises with each view that differs from the one before; equal versions mean that nothing changed."""

    version: int = 0
    by_name: Mapping[str, TopicView] = field(default_factory=dict)
    by_id: Mapping[bytes, TopicView] = field(default_factory=dict)

    @classmethod
    def of(cls, version: int, topics: Iterable[TopicView]) -> "TopicsView":
        listed = list(topics)
        return cls(version, {topic.name: topic for topic in listed}, {topic.topic_id: topic for topic in listed})
