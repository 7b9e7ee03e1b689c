"""Groups of the classic protocol, as offsets and operators see them."""

from collections.abc import Container, Sequence

from libs.wire.consumer_protocol import PROTOCOL_TYPE
from libs.wire.errors import ErrorCode
from libs.wire.messages import consumer_group_describe, describe_groups
from libs.wire.messages.offset_commit import OffsetCommitRequest
from services.group_coordinator.core.classic import commits
from services.group_coordinator.core.classic.classic_groups import Classic
from services.group_coordinator.core.classic.commits import subscribed_topics
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.kinds.group_kind import SINCE_COMMIT, Timers, not_a_consumer_group
from services.group_coordinator.core.model.quoting import quoted
from services.group_coordinator.core.model.records import ClassicGroupRemoved, Record

_MAINTAINED_IN = (State.STABLE, State.PREPARING_REBALANCE)


class AnyTopic:
    """All topics, since it is not known which ones the members read."""

    def __contains__(self, topic: object) -> bool:
        return True


class ClassicGroups:
    def __init__(self, classic: Classic) -> None:
        self._classic = classic

    def commit_error(self, name: str, request: OffsetCommitRequest, version: int) -> ErrorCode:
        generation = request.generation_id_or_member_epoch
        return self._classic.commit_error(name, request.member_id, request.group_instance_id, generation)

    def transactional_commit_error(self, name: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        return commits.transactional_commit_error(self._classic.groups[name], member_id, instance_id, generation)

    def commit_timers(self, name: str, request: OffsetCommitRequest, now_ms: int) -> Timers:
        if self._classic.groups[name].state not in _MAINTAINED_IN:
            return {}
        return self._classic.session_timers(name, request.member_id, now_ms)

    def fetch_error(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        """The error of OffsetFetch: none, since a classic group's offsets are open to all."""
        return ErrorCode.NONE

    def offset_deletion_error(self, name: str) -> ErrorCode:
        """The error of OffsetDelete. A group with members has to be of the consumer protocol type, so that its
        topics are known."""
        group = self._classic.groups[name]
        if group.state is State.EMPTY or group.facts.protocol_type == PROTOCOL_TYPE:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    def deletion_error(self, name: str) -> ErrorCode:
        return self._classic.deletion_error(name)

    def subscription(self, name: str) -> Container[str]:
        group = self._classic.groups[name]
        if not group.members or group.facts.protocol_type != PROTOCOL_TYPE:
            return ()
        topics = subscribed_topics(group)
        return topics if topics is not None else AnyTopic()

    def expiry_base_ms(self, name: str) -> int | None:
        group = self._classic.groups[name]
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

    def tombstones(self, name: str) -> Sequence[Record]:
        return (ClassicGroupRemoved(name),)

    def describe(self, name: str, version: int) -> describe_groups.DescribedGroup:
        return self._classic.describe(name, version)

    def describe_as_consumer_group(self, name: str, version: int) -> consumer_group_describe.DescribedGroup:
        return not_a_consumer_group(name, f"Group {quoted(name)} is not a consumer group.")
