"""Facts about a classic group that offsets need: whether a commit is allowed, which topics are read, and since when none is."""

from libs.wire.consumer_protocol import PROTOCOL_TYPE, read_subscription
from libs.wire.errors import ErrorCode
from libs.wire.primitives import ProtocolError
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.states import State


def commit_error(group: Group, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    if generation < 0 and group.state is State.EMPTY:
        return ErrorCode.NONE  # an operator, or a consumer without group membership
    if generation >= 0 or member_id or instance_id is not None:
        fault = group.fault(member_id, instance_id)
        if fault is not None:
            return fault
        if generation != group.facts.generation:
            return ErrorCode.ILLEGAL_GENERATION
    else:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is State.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def transactional_commit_error(group: Group, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """As in Kafka the state of the group does not matter, and a producer that names no member may commit."""
    if generation < 0 and (group.state is State.EMPTY or not (member_id or instance_id is not None)):
        return ErrorCode.NONE
    fault = group.fault(member_id, instance_id)
    if fault is not None:
        return fault
    return ErrorCode.NONE if generation == group.facts.generation else ErrorCode.ILLEGAL_GENERATION


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The topics that members read. None if it cannot be known, since the members do not speak the consumer protocol type."""
    facts = group.facts
    if facts.protocol_type != PROTOCOL_TYPE or facts.protocol is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        try:
            topics.update(read_subscription(member.metadata(facts.protocol), up_to=0).topics)
        except ProtocolError:
            return None
    return frozenset(topics)
