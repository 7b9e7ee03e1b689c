"""Events of groups for operators, reported once they are committed. No table holds them, and no decision reads them."""

from typing import Final, NamedTuple, TypeAlias

from libs.wire.errors import ErrorCode

SESSION_OVER: Final = "session over"
LEFT: Final = "left"
BY_OPERATOR: Final = "removed by an operator"
TOO_SLOW: Final = "rebalance too slow"
REPLACED: Final = "replaced static"
NO_ROOM: Final = "group full"

DELETED: Final = "DeleteGroups"
NOTHING_LEFT: Final = "it had no members, and its offsets expired"

_FENCED: Final = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class RebalanceBegan(NamedTuple):
    group: str
    kind: str
    reason: str
    members: int
    generation: int
    """For a classic group the generation that ends, for a consumer group the epoch that begins."""
    again: bool
    """Whether another rebalance was in progress."""
    timeout_ms: int = 0
    """The longest rebalance timeout of its members."""


class RebalanceEnded(NamedTuple):
    """Every member has its assignment, or none is left."""

    group: str
    kind: str
    members: int
    generation: int


class MemberRemoved(NamedTuple):
    group: str
    member_id: str
    instance_id: str | None
    why: str


class MemberFenced(NamedTuple):
    """A request was refused because another member has its instance id, or because its epoch is wrong."""

    group: str
    member_id: str
    instance_id: str | None
    why: str


class ProtocolChanged(NamedTuple):
    group: str
    before: str
    after: str
    members: int


class GroupDeleted(NamedTuple):
    group: str
    why: str


class OffsetsExpired(NamedTuple):
    group: str
    old: int
    of_deleted_topics: int
    left: int


GroupEvent: TypeAlias = (
    RebalanceBegan | RebalanceEnded | MemberRemoved | MemberFenced | ProtocolChanged | GroupDeleted | OffsetsExpired
)


def fenced(group: str, member_id: str, instance_id: str | None, error: int, why: str = "") -> tuple[MemberFenced, ...]:
    """The event of a request that is answered with `error`; none unless that is a fencing error."""
    if error not in _FENCED:
        return ()
    return (MemberFenced(group, member_id, instance_id, why or "another member has its instance id"),)
