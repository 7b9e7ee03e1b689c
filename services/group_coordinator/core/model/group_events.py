"""What operators are told of groups once it is committed, as facts. No table holds them, and nothing is decided by them."""

from typing import Final, NamedTuple, TypeAlias

from libs.wire.errors import ErrorCode

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"

SESSION_OVER: Final = "session over"
LEFT: Final = "left"
BY_OPERATOR: Final = "removed by an operator"
TOO_SLOW: Final = "rebalance too slow"
REPLACED: Final = "replaced static"
NO_ROOM: Final = "group full"

DELETED: Final = "DeleteGroups"
NOTHING_LEFT: Final = "nobody was in it, and its offsets expired"

_FENCED: Final = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class RebalanceBegan(NamedTuple):
    group: str
    kind: str
    reason: str
    members: int
    generation: int
    """Of a classic group the one that ends, of a consumer group the epoch that begins."""
    again: bool
    """One was under way."""


class RebalanceEnded(NamedTuple):
    """Everybody has what it is to have, or nobody is left."""

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
    """Who asked was told that it is another's place, or another's time."""

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


Happened: TypeAlias = (
    RebalanceBegan | RebalanceEnded | MemberRemoved | MemberFenced | ProtocolChanged | GroupDeleted | OffsetsExpired
)


def fenced(group: str, member_id: str, instance_id: str | None, error: int, why: str = "") -> tuple[MemberFenced, ...]:
    """Of a request that is answered with `error`: nothing unless that says so."""
    if error not in _FENCED:
        return ()
    return (MemberFenced(group, member_id, instance_id, why or "another member has its instance id"),)
