"""Topics of tests, with ids that contain their names."""

from collections.abc import Iterable, Mapping
from typing import Any

from services.group_coordinator.core.model.topics_view import TopicsView, TopicView

Owned = Mapping[str, Iterable[int]]
"""Topic → partitions."""


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b".")


def topic_name(result: bytes) -> str:
    return result.rstrip(b".").decode()


def given(reply: Any) -> dict[str, list[int]] | None:
    """The assignment in a ConsumerGroupHeartbeat's answer. None: as before."""
    assignment = reply.assignment
    return None if assignment is None else {topic_name(t.topic_id): list(t.partitions) for t in assignment.topic_partitions}


def view_of(topics: Mapping[str, int], version: int) -> TopicsView:
    """Topics, each with its number of partitions."""
    return TopicsView.of(version, [TopicView(topic_id(name), name, partitions) for name, partitions in topics.items()])
