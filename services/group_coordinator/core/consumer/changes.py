"""What an owner knows of a group of the consumer protocol beside the log, as records that are not kept there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from services.group_coordinator.core.topics_view import TopicView


@dataclass(frozen=True, slots=True)
class RebalanceBegun:
    """The group epoch rose."""

    group: str
    reason: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class RebalanceEnded:
    """Everybody has what it is to have, or nobody is left."""

    group: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class TopicsChecked:
    """The metadata hash is that of this view."""

    group: str
    version: int
    seen: Mapping[str, TopicView]
    """The subscribed topics that are there."""


@dataclass(frozen=True, slots=True)
class RegexesChecked:
    """All regular expressions were resolved against this view."""

    group: str
    version: int
    now_ms: int


Change: TypeAlias = RebalanceBegun | RebalanceEnded | TopicsChecked | RegexesChecked
