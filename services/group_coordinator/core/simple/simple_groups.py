"""Two kinds without members: absent groups and simple ones."""

from collections.abc import Container, Iterable, Sequence
from typing import Final

from libs.wire.errors import ErrorCode
from libs.wire.messages import consumer_group_describe, describe_groups
from libs.wire.messages.list_groups import ListedGroup
from libs.wire.messages.offset_commit import OffsetCommitRequest
from services.group_coordinator.core.classic.states import State
from services.group_coordinator.core.model.group_kind import (
    CLASSIC,
    SINCE_COMMIT,
    Timers,
    accepts,
    not_a_classic_group,
    not_a_consumer_group,
)
from services.group_coordinator.core.model.quoting import quoted
from services.group_coordinator.core.model.records import Record

STATE: Final = State.EMPTY
"""The state of every simple group: to clients it is classic."""


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

    def describe_as_classic_group(self, name: str, version: int) -> describe_groups.DescribedGroup:
        return not_a_classic_group(name, f"Group {quoted(name)} not found.", version)

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

    def describe_as_classic_group(self, name: str, version: int) -> describe_groups.DescribedGroup:
        return describe_groups.DescribedGroup(group_id=name, group_state=STATE.value)

    def describe_as_consumer_group(self, name: str, version: int) -> consumer_group_describe.DescribedGroup:
        return not_a_consumer_group(name, f"Group {quoted(name)} is not a consumer group.")

    def listed(self, names: Iterable[str], states: list[str], kinds: list[str]) -> list[ListedGroup]:
        """The simple groups `names`, if they pass the filters of ListGroups."""
        if not accepts(states, STATE.value) or not accepts(kinds, CLASSIC):
            return []
        return [ListedGroup(name, "", STATE.value, CLASSIC) for name in names]
