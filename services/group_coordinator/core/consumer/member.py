"""A member of a consumer group: its subscription and its assignment."""

from dataclasses import field, replace
from typing import Final

from libs.lean_dataclass import dataclass
from services.group_coordinator.core.consumer import partitions
from services.group_coordinator.core.consumer.partitions import NONE, Partitions
from services.group_coordinator.core.model.records import (
    ClassicMemberMetadata,
    ConsumerMemberChanged,
    CurrentAssignmentChanged,
    MemberState,
)

JOIN_GROUP_MEMBER_EPOCH: Final = 0
LEAVE_GROUP_MEMBER_EPOCH: Final = -1
LEAVE_GROUP_STATIC_MEMBER_EPOCH: Final = -2
"""The epoch with which a static member leaves for a while. Its partitions stay reserved until its session ends."""


def _none() -> Partitions:
    return NONE


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """Topic names, sorted, without duplicates."""
    regex: str | None = ""
    """The regular expression. "" and None: none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """None if it speaks the consumer protocol."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = field(default_factory=_none)
    pending: Partitions = field(default_factory=_none)
    """Partitions to revoke. Other members get them only after this one reports that it no longer owns them."""

    @property
    def is_away(self) -> bool:
        return self.epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.epoch == assignment_epoch and self.state is MemberState.STABLE

    # -- records ------------------------------------------------------------------------------------------------------------

    def metadata_record(self, group: str) -> ConsumerMemberChanged:
        return ConsumerMemberChanged(
            group,
            self.member_id,
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.topics,
            self.regex,
            self.rebalance_timeout_ms,
            self.assignor,
            self.classic,
        )

    def assignment_record(self, group: str) -> CurrentAssignmentChanged:
        return CurrentAssignmentChanged(
            group,
            self.member_id,
            self.epoch,
            self.previous_epoch,
            self.state,
            partitions.written(self.assigned),
            partitions.written(self.pending),
        )

    def with_metadata(self, record: ConsumerMemberChanged) -> "Member":
        return replace(
            self,
            instance_id=record.instance_id,
            rack_id=record.rack_id,
            client_id=record.client_id,
            client_host=record.client_host,
            topics=record.subscribed_topics,
            regex=record.subscribed_regex,
            rebalance_timeout_ms=record.rebalance_timeout_ms,
            assignor=record.server_assignor,
            classic=record.classic,
        )

    def with_assignment(self, record: CurrentAssignmentChanged) -> "Member":
        """The member with the assignment of `record`. An unchanged assignment stays the same object, so that holders are updated
        only on changes."""
        return replace(
            self,
            epoch=record.member_epoch,
            previous_epoch=record.previous_member_epoch,
            state=record.state,
            assigned=_kept(self.assigned, partitions.read(record.assigned)),
            pending=_kept(self.pending, partitions.read(record.pending_revocation)),
        )


def _kept(before: Partitions, now: Partitions) -> Partitions:
    return before if before == now else now
