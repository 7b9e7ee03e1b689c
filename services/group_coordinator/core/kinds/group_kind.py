"""What is asked about a group whatever its kind, and two kinds without members: groups that are not there, and simple ones."""

from collections.abc import Container, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from libs.runtime.shards.timers import TimerKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import consumer_group_describe, describe_groups
from libs.wire.messages.offset_commit import OffsetCommitRequest
from services.group_coordinator.core.classic import views
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.quoted import quoted
from services.group_coordinator.core.records import Record

Timers: TypeAlias = Mapping[TimerKey, int | None]

SINCE_COMMIT: Final = -1
"""Instead of a moment: an offset gets old from its own commit on."""


class Kind(Protocol):
    """All groups of one kind. `name` is that of a group of it."""

    def commit_error(self, name: str, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """Of OffsetCommit, for all its partitions."""
        ...

    def heard_of(self, name: str, request: OffsetCommitRequest, now_ms: int) -> Timers:
        """A commit that was let in is a sign of life."""
        ...

    def fetch_error(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Of OffsetFetch, from version 9 on."""
        ...

    def offset_deletion_error(self, name: str) -> ErrorCode:
        """Of OffsetDelete, for the request."""
        ...

    def removal_error(self, name: str) -> ErrorCode:
        """Of DeleteGroups. NONE: nobody is in it."""
        ...

    def subscription(self, name: str) -> Container[str]:
        """Topics that a member reads: their offsets are neither deleted nor expired."""
        ...

    def old_since(self, name: str) -> int | None:
        """When offsets begin to get old: a moment in ms, or SINCE_COMMIT. None: they do not."""
        ...

    def removal(self, name: str) -> Sequence[Record]:
        """Tombstones of all but the offsets."""
        ...

    def described(self, name: str, version: int) -> describe_groups.DescribedGroup:
        """By DescribeGroups, which knows classic groups only."""
        ...

    def consumer_described(self, name: str, version: int) -> consumer_group_describe.DescribedGroup:
        """By ConsumerGroupDescribe, which knows groups of that protocol only."""
        ...


class NoGroup:
    """There is none of that name."""

    def commit_error(self, name: str, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """A commit of nobody in particular begins a simple group."""
        if request.generation_id_or_member_epoch < 0:
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION

    def heard_of(self, name: str, request: OffsetCommitRequest, now_ms: int) -> Timers:
        return {}

    def fetch_error(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def offset_deletion_error(self, name: str) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def removal_error(self, name: str) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def subscription(self, name: str) -> Container[str]:
        return ()

    def old_since(self, name: str) -> int | None:
        return SINCE_COMMIT

    def removal(self, name: str) -> Sequence[Record]:
        return ()

    def described(self, name: str, version: int) -> describe_groups.DescribedGroup:
        return views.missing(name, version)

    def consumer_described(self, name: str, version: int) -> consumer_group_describe.DescribedGroup:
        return not_a_consumer_group(name, f"Group {quoted(name)} not found.")


class SimpleGroups(NoGroup):
    """Offsets, and nobody who ever joined: of consumers that assign themselves, or of an operator. Kafka calls them classic."""

    def commit_error(self, name: str, request: OffsetCommitRequest, version: int) -> ErrorCode:
        return ErrorCode.NONE if request.generation_id_or_member_epoch < 0 else ErrorCode.UNKNOWN_MEMBER_ID

    def offset_deletion_error(self, name: str) -> ErrorCode:
        return ErrorCode.NONE

    def removal_error(self, name: str) -> ErrorCode:
        return ErrorCode.NONE

    def described(self, name: str, version: int) -> describe_groups.DescribedGroup:
        return describe_groups.DescribedGroup(group_id=name, group_state=State.EMPTY.value)

    def consumer_described(self, name: str, version: int) -> consumer_group_describe.DescribedGroup:
        return not_a_consumer_group(name, f"Group {quoted(name)} is not a consumer group.")


def not_a_consumer_group(name: str, why: str) -> consumer_group_describe.DescribedGroup:
    return consumer_group_describe.DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, why, group_id=name)
