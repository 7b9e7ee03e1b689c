"""Changes of a consumer group that the log does not keep, so they end with the owner."""

from collections.abc import Mapping
from typing import TypeAlias

from libs.lean_dataclass import dataclass
from services.group_coordinator.core.model.topics_view import TopicView


@dataclass(frozen=True, slots=True)
class RebalanceBegun:
    """The group epoch rose."""

    group: str
    reason: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class RebalanceEnded:
    """Every member has its target assignment, or none is left."""

    group: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class TopicsChecked:
    """The metadata hash was computed from this view of the topics."""

    group: str
    version: int
    seen: Mapping[str, TopicView]
    """Subscribed topics that exist."""


@dataclass(frozen=True, slots=True)
class RegexesChecked:
    """All regular expressions were resolved against this view."""

    group: str
    version: int
    now_ms: int


Change: TypeAlias = RebalanceBegun | RebalanceEnded | TopicsChecked | RegexesChecked
