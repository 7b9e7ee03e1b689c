"""Groups of the consumer protocol, as offsets and operators see them."""

from collections.abc import Container, Sequence

from libs.wire.errors import ErrorCode
from libs.wire.messages import consumer_group_describe, describe_groups
from libs.wire.messages.offset_commit import OffsetCommitRequest
from services.group_coordinator.core.consumer import commits
from services.group_coordinator.core.consumer.consumer_groups import Consumer
from services.group_coordinator.core.kinds.group_kind import SINCE_COMMIT, Timers
from services.group_coordinator.core.model.records import Record


class ConsumerGroups:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def commit_error(self, name: str, request: OffsetCommitRequest, version: int) -> ErrorCode:
        epoch = request.generation_id_or_member_epoch
        return self._consumer.commit_error(name, request.member_id, request.group_instance_id, epoch, version)

    def transactional_commit_error(self, name: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        return commits.transactional_commit_error(self._consumer.groups[name], member_id, instance_id, generation)

    def commit_timers(self, name: str, request: OffsetCommitRequest, now_ms: int) -> Timers:
        """No timers: only heartbeats extend a session."""
        return {}

    def fetch_error(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        return self._consumer.fetch_error(name, member_id, epoch)

    def offset_deletion_error(self, name: str) -> ErrorCode:
        return ErrorCode.NONE

    def deletion_error(self, name: str) -> ErrorCode:
        return self._consumer.deletion_error(name)

    def subscription(self, name: str) -> Container[str]:
        return self._consumer.subscribed_topics(name)

    def expiry_base_ms(self, name: str) -> int | None:
        return SINCE_COMMIT

    def tombstones(self, name: str) -> Sequence[Record]:
        return self._consumer.tombstones(name)

    def describe(self, name: str, version: int) -> describe_groups.DescribedGroup:
        return self._consumer.describe_as_classic(name, version)

    def describe_as_consumer_group(self, name: str, version: int) -> consumer_group_describe.DescribedGroup:
        return self._consumer.describe(name)
