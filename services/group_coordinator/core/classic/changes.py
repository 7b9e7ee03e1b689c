"""Changes of a classic group between two generations. The log does not keep these records, so they end with the owner.

The log keeps `ClassicGroupChanged` and `ClassicGroupRemoved`.
"""

from typing import TypeAlias

from libs.lean_dataclass import dataclass
from services.group_coordinator.core.classic.member import Member, PendingMember


@dataclass(frozen=True, slots=True)
class GroupBegun:
    """A member asks to join a group that does not exist."""

    group: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class GroupForgotten:
    """The group was not in the log, and no member waits to join it any more."""

    group: str


@dataclass(frozen=True, slots=True)
class MemberIdGiven:
    """The coordinator gave the member an id, and the member has to join again with it (KIP-394). Until then it is pending."""

    group: str
    member_id: str
    pending: PendingMember


@dataclass(frozen=True, slots=True)
class PendingMemberRemoved:
    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class MemberJoined:
    """A member that is new or changed. It waits for the others to join."""

    group: str
    member: Member
    protocol_type: str
    """The group's protocol type, which the first member sets."""
    version: int
    """The version of its request."""


@dataclass(frozen=True, slots=True)
class StaticMemberReplaced:
    """The same instance under a new member id (KIP-345). It takes over leadership and assignment."""

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
    """By how much the initial delay may still be extended."""


@dataclass(frozen=True, slots=True)
class JoinsExtended:
    """The join phase lasts longer: the initial delay because a new member came, or the rebalance timeout because none joined."""

    group: str
    due_ms: int
    remaining_ms: int


@dataclass(frozen=True, slots=True)
class GenerationBegun:
    """A new generation. All joined members get their answers, and have to sync."""

    group: str
    generation: int
    protocol: str
    leader: str
    now_ms: int
    sync_due_ms: int


@dataclass(frozen=True, slots=True)
class MemberSynced:
    """A member that has sent SyncGroup. `waits`: for the leader's assignment."""

    group: str
    member_id: str
    waits: bool


@dataclass(frozen=True, slots=True)
class StrandedRequestAnswered:
    """A stranded request was answered."""

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
    | StrandedRequestAnswered
)
