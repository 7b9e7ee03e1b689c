"""Groups of the consumer protocol, as offsets and operators see them."""

from collections.abc import Container, Sequence

from libs.wire.errors import ErrorCode
from libs.wire.messages import consumer_group_describe, describe_groups
from libs.wire.messages.offset_commit import OffsetCommitRequest
from services.group_coordinator.core.consumer.part import Consumer
from services.group_coordinator.core.kinds.kind import SINCE_COMMIT, Timers
from services.group_coordinator.core.records import Record


class ConsumerGroups:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def commit_error(self, name: str, request: OffsetCommitRequest, version: int) -> ErrorCode:
        epoch = request.generation_id_or_member_epoch
        return self._consumer.commit_error(name, request.member_id, request.group_instance_id, epoch, version)

    def heard_of(self, name: str, request: OffsetCommitRequest, now_ms: int) -> Timers:
        """Heartbeats alone are signs of life."""
        return {}

    def fetch_error(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        return self._consumer.fetch_error(name, member_id, epoch)

    def offset_deletion_error(self, name: str) -> ErrorCode:
        return ErrorCode.NONE

    def removal_error(self, name: str) -> ErrorCode:
        return self._consumer.removal_error(name)

    def subscription(self, name: str) -> Container[str]:
        return self._consumer.subscribed_topics(name)

    def old_since(self, name: str) -> int | None:
        return SINCE_COMMIT

    def removal(self, name: str) -> Sequence[Record]:
        return self._consumer.removal(name)

    def described(self, name: str, version: int) -> describe_groups.DescribedGroup:
        return self._consumer.described_as_classic(name, version)

    def consumer_described(self, name: str, version: int) -> consumer_group_describe.DescribedGroup:
        return self._consumer.described(name)
