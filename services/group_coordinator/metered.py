"""A machine whose decisions are counted: rebalances with how long they took, and offsets that expired.

What was decided is counted, also what an append that failed took back: such a rebalance is decided twice.
"""

from collections.abc import Sequence
from typing import Any

from libs.runtime.shards.decisions import Decision, Expired, Machine
from services.group_coordinator.core.asked import Asked, Reply
from services.group_coordinator.core.classic import changes as classic
from services.group_coordinator.core.consumer import changes as consumer
from services.group_coordinator.core.records import (
    ClassicGroupChanged,
    ClassicGroupRemoved,
    ConsumerGroupRemoved,
    OffsetCommitted,
    OffsetRemoved,
)
from services.group_coordinator.meters import CLASSIC, CONSUMER, Meters


class Metered:
    """A `decisions.Machine` around `machine`, which is there to be looked at."""

    def __init__(self, machine: Machine[Asked, Reply, Any], meters: Meters) -> None:
        self.machine = machine
        self.replay, self.encode, self.decode, self.timers = machine.replay, machine.encode, machine.decode, machine.timers
        self._decide = machine.decide
        self._meters = meters
        self._begun: dict[str, int] = {}
        """Since when a group rebalances, in ms."""

    def decide(self, event: Asked | Expired, now_ms: int) -> Decision[Reply, Any]:
        decision = self._decide(event, now_ms)
        if decision.records:
            self._note(decision.records, now_ms, expired=isinstance(event, Expired))
        return decision

    def _note(self, records: Sequence[Any], now_ms: int, *, expired: bool) -> None:
        for record in records:
            if type(record) is OffsetCommitted:  # most are
                continue
            match record:
                case classic.RebalanceBegun(group):
                    self._meters.rebalances[CLASSIC] += 1
                    self._begun.setdefault(group, now_ms)
                case ClassicGroupChanged(group):
                    self._ended(CLASSIC, group, now_ms)
                case consumer.RebalanceBegun(group):
                    self._meters.rebalances[CONSUMER] += 1
                    self._begun.setdefault(group, now_ms)
                case consumer.RebalanceEnded(group):
                    self._ended(CONSUMER, group, now_ms)
                case ClassicGroupRemoved(group) | classic.GroupForgotten(group) | ConsumerGroupRemoved(group):
                    self._begun.pop(group, None)
                case OffsetRemoved() if expired:
                    self._meters.expired += 1

    def _ended(self, kind: str, group: str, now_ms: int) -> None:
        begun = self._begun.pop(group, None)
        if begun is not None:
            self._meters.rebalance_times[kind].observe(max(now_ms - begun, 0) / 1000)
