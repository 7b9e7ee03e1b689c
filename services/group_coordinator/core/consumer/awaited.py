"""Members of the classic protocol in a group of the consumer protocol that are to ask for something, and until when.

Who is told to join again (27) has to, and who joined has to ask for its assignment, each within its rebalance timeout. Not in the
log: the next owner tells them once more.
"""

from dataclasses import dataclass
from typing import NamedTuple

from libs.runtime.shards.timers import TimerKey

PART = "mixed"


class Awaited(NamedTuple):
    group: str
    member_id: str
    joins: bool
    """Else it syncs."""

    @property
    def timer(self) -> TimerKey:
        return PART, "join" if self.joins else "sync", self.group, self.member_id


@dataclass(frozen=True, slots=True)
class MemberAwaited:
    awaited: Awaited
    due_ms: int


@dataclass(frozen=True, slots=True)
class MemberCame:
    """Or is not waited for any more."""

    awaited: Awaited
