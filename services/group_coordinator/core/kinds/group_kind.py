"""The interface to any kind of group, and two kinds without members: absent groups and simple ones."""

from collections.abc import Container, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from libs.coordinator.core.timers import TimerKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import consumer_group_describe, describe_groups
from libs.wire.messages.offset_commit import OffsetCommitRequest
from services.group_coordinator.core.classic import views
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.model.quoting import quoted
from services.group_coordinator.core.model.records import Record

Timers: TypeAlias = Mapping[TimerKey, int | None]

SINCE_COMMIT: Final = -1
"""Instead of a time: each offset ages from its own commit on."""


class Kind(Protocol):
    """All groups of one kind. `name` is the name of a group of this kind."""

    def commit_error(self, name: str, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """The error of OffsetCommit, for all its partitions."""
        ...

    def transactional_commit_error(self, name: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """The error of TxnOffsetCommit, for all its partitions. Before version 3 it names no member, and any may commit."""
        ...

    def commit_timers(self, name: str, request: OffsetCommitRequest, now_ms: int) -> Timers:
        """Session timers after an accepted commit."""
        ...

    def fetch_error(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        """The error of OffsetFetch, from version 9 on."""
        ...

    def offset_deletion_error(self, name: str) -> ErrorCode:
        """The error of OffsetDelete, for the whole request."""
        ...

    def deletion_error(self, name: str) -> ErrorCode:
        """The error of DeleteGroups. NONE if the group has no members."""
        ...

    def subscription(self, name: str) -> Container[str]:
        """Topics that members read. Their offsets are neither deleted nor expired."""
        ...

    def expiry_base_ms(self, name: str) -> int | None:
        """The time in ms from which offsets age, or SINCE_COMMIT. None: they do not age."""
        ...

    def tombstones(self, name: str) -> Sequence[Record]:
        """Tombstones of all the group's records but the offsets."""
        ...

    def describe(self, name: str, version: int) -> describe_groups.DescribedGroup:
        """The group in DescribeGroups, which knows classic groups only."""
        ...

    def describe_as_consumer_group(self, name: str, version: int) -> consumer_group_describe.DescribedGroup:
        """The group in ConsumerGroupDescribe, which knows consumer groups only."""
        ...


class NoGroup:
    """Groups that do not exist."""

    def commit_error(self, name: str, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """The error of OffsetCommit. A commit without a member creates a simple group."""
        if request.generation_id_or_member_epoch < 0:
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION

    def transactional_commit_error(self, name: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        return ErrorCode.NONE if generation < 0 else ErrorCode.ILLEGAL_GENERATION

    def commit_timers(self, name: str, request: OffsetCommitRequest, now_ms: int) -> Timers:
        return {}

    def fetch_error(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def offset_deletion_error(self, name: str) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def deletion_error(self, name: str) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def subscription(self, name: str) -> Container[str]:
        return ()

    def expiry_base_ms(self, name: str) -> int | None:
        return SINCE_COMMIT

    def tombstones(self, name: str) -> Sequence[Record]:
        return ()

    def describe(self, name: str, version: int) -> describe_groups.DescribedGroup:
        return views.missing(name, version)

    def describe_as_consumer_group(self, name: str, version: int) -> consumer_group_describe.DescribedGroup:
        return not_a_consumer_group(name, f"Group {quoted(name)} not found.")


class SimpleGroups(NoGroup):
    """Groups with offsets that no member ever joined: of consumers without group membership, or of an operator. Kafka calls them
    classic."""

    def commit_error(self, name: str, request: OffsetCommitRequest, version: int) -> ErrorCode:
        return ErrorCode.NONE if request.generation_id_or_member_epoch < 0 else ErrorCode.UNKNOWN_MEMBER_ID

    def transactional_commit_error(self, name: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        return ErrorCode.NONE if generation < 0 else ErrorCode.UNKNOWN_MEMBER_ID

    def offset_deletion_error(self, name: str) -> ErrorCode:
        return ErrorCode.NONE

    def deletion_error(self, name: str) -> ErrorCode:
        return ErrorCode.NONE

    def describe(self, name: str, version: int) -> describe_groups.DescribedGroup:
        return describe_groups.DescribedGroup(group_id=name, group_state=State.EMPTY.value)

    def describe_as_consumer_group(self, name: str, version: int) -> consumer_group_describe.DescribedGroup:
        return not_a_consumer_group(name, f"Group {quoted(name)} is not a consumer group.")


def not_a_consumer_group(name: str, why: str) -> consumer_group_describe.DescribedGroup:
    return consumer_group_describe.DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, why, group_id=name)
