"""A member of a group of the consumer protocol: what it asks for, and what it has."""

from dataclasses import dataclass, field, replace
from typing import Final

from services.group_coordinator.core.consumer import partitions
from services.group_coordinator.core.consumer.partitions import NONE, Partitions
from services.group_coordinator.core.records import (
    ConsumerMemberChanged,
    CurrentAssignmentChanged,
    MemberState,
    SpeaksClassic,
)

JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2
"""Only static members. Theirs until the session is over."""


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
    """Names, sorted, each once."""
    regex: str | None = ""
    """"" and None: none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: SpeaksClassic | None = None
    """None: it speaks the consumer protocol."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = field(default_factory=_none)
    pending: Partitions = field(default_factory=_none)
    """To be given up: others do not get them before it says that it does not own them any more."""

    @property
    def is_away(self) -> bool:
        return self.epoch == LEAVES_FOR_A_WHILE

    def has_reached(self, assignment_epoch: int) -> bool:
        return self.epoch == assignment_epoch and self.state is MemberState.STABLE

    # -- records ------------------------------------------------------------------------------------------------------------

    def asks(self, group: str) -> ConsumerMemberChanged:
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

    def has(self, group: str) -> CurrentAssignmentChanged:
        return CurrentAssignmentChanged(
            group,
            self.member_id,
            self.epoch,
            self.previous_epoch,
            self.state,
            partitions.written(self.assigned),
            partitions.written(self.pending),
        )

    def asking(self, record: ConsumerMemberChanged) -> "Member":
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

    def having(self, record: CurrentAssignmentChanged) -> "Member":
        """Of what it has already, the same object: who holds what is looked at only where that is another."""
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
