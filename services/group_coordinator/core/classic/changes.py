"""What happens to a classic group between two generations, as records that are not kept in the log: it goes with its owner.

What the log keeps are `ClassicGroupChanged` and `ClassicGroupRemoved`.
"""

from dataclasses import dataclass
from typing import TypeAlias

from services.group_coordinator.core.classic.member import Member


@dataclass(frozen=True, slots=True)
class GroupBegun:
    """Somebody asks to join a group that is not there."""

    group: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class GroupForgotten:
    """It was not in the log, and nobody is left who asked to join it."""

    group: str


@dataclass(frozen=True, slots=True)
class MemberIdGiven:
    """KIP-394: the member has to come again with it. Until then it is pending."""

    group: str
    member_id: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class PendingMemberRemoved:
    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class MemberJoined:
    """A member new, or as it is now. It waits for the others to join."""

    group: str
    member: Member
    protocol_type: str
    """The group's, from its first member on."""
    version: int
    """Of its request."""


@dataclass(frozen=True, slots=True)
class StaticMemberReplaced:
    """KIP-345: the same instance under a new member id. It takes the place of the old: leadership, assignment."""

    group: str
    old_id: str
    member: Member


@dataclass(frozen=True, slots=True)
class MemberRemoved:
    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RebalanceBegun:
    group: str
    reason: str
    now_ms: int
    due_ms: int
    remaining_ms: int
    """By how much the initial delay may yet be extended."""


@dataclass(frozen=True, slots=True)
class JoinsExtended:
    """The initial delay because somebody new came; or the rebalance timeout because nobody did."""

    group: str
    due_ms: int
    remaining_ms: int


@dataclass(frozen=True, slots=True)
class GenerationBegun:
    """All who joined are answered, and are to sync."""

    group: str
    generation: int
    protocol: str
    leader: str
    now_ms: int
    sync_due_ms: int


@dataclass(frozen=True, slots=True)
class MemberSynced:
    """`waits` for the leader's assignment, or has it."""

    group: str
    member_id: str
    waits: bool


@dataclass(frozen=True, slots=True)
class AskerAnswered:
    """One who was stranded."""

    group: str
    member_id: str
    joins: bool


Change: TypeAlias = (
    GroupBegun
    | GroupForgotten
    | MemberIdGiven
    | PendingMemberRemoved
    | MemberJoined
    | StaticMemberReplaced
    | MemberRemoved
    | RebalanceBegun
    | JoinsExtended
    | GenerationBegun
    | MemberSynced
    | AskerAnswered
)
