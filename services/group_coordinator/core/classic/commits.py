"""Facts about a classic group that offsets need: whether a commit is allowed, which topics are read, and since when none is."""

from collections.abc import Container
from typing import Final

from libs.wire.consumer_protocol import PROTOCOL_TYPE, read_subscription
from libs.wire.errors import ErrorCode
from libs.wire.primitives import ProtocolError
from services.group_coordinator.core.classic.group import Group
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.model.group_kind import SINCE_COMMIT

MAINTAINED_IN: Final = (State.STABLE, State.PREPARING_REBALANCE)
"""States in which a commit extends its member's session."""


class AnyTopic:
    """All topics, since it is not known which ones the members read."""

    def __contains__(self, topic: object) -> bool:
        return True


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


def offset_deletion_error(group: Group) -> ErrorCode:
    """A group with members has to be of the consumer protocol type, so that its topics are known."""
    if group.state is State.EMPTY or group.facts.protocol_type == PROTOCOL_TYPE:
        return ErrorCode.NONE
    return ErrorCode.NON_EMPTY_GROUP


def subscription(group: Group) -> Container[str]:
    if not group.members or group.facts.protocol_type != PROTOCOL_TYPE:
        return ()
    topics = subscribed_topics(group)
    return topics if topics is not None else AnyTopic()


def expiry_base_ms(group: Group) -> int | None:
    """The time in ms from which offsets age, or SINCE_COMMIT. None: they do not age."""
    facts = group.facts
    if group.pending:
        return None  # a member is about to join
    if facts.protocol_type is None and not group.members:
        return SINCE_COMMIT
    if facts.state is State.EMPTY:
        return facts.since_ms if facts.since_ms >= 0 else SINCE_COMMIT
    if facts.state is State.STABLE and subscribed_topics(group) is not None:
        return SINCE_COMMIT
    return None
