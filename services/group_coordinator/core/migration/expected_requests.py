"""Requests that classic members of a consumer group owe, and their deadlines.

A member that was told REBALANCE_IN_PROGRESS has to join again. A member that joined has to send SyncGroup. Each has its rebalance
timeout for that. The log does not keep this: the next owner tells the members again.
"""

from typing import NamedTuple

from libs.coordinator.core.timers import TimerKey
from libs.lean_dataclass import dataclass

PART = "mixed"


class ExpectedRequest(NamedTuple):
    group: str
    member_id: str
    joins: bool
    """True for JoinGroup, False for SyncGroup."""

    @property
    def timer(self) -> TimerKey:
        return PART, "join" if self.joins else "sync", self.group, self.member_id


@dataclass(frozen=True, slots=True)
class RequestExpected:
    expected: ExpectedRequest
    due_ms: int


@dataclass(frozen=True, slots=True)
class RequestArrived:
    """The request arrived, or is no longer expected."""

    expected: ExpectedRequest
