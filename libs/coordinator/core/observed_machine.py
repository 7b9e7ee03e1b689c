"""A machine with an observer of its committed events."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from libs.coordinator.core.decisions import Decision, Expired, Machine
from libs.coordinator.core.tables import Journal

log = logging.getLogger(__name__)

E = TypeVar("E")
R = TypeVar("R")

Observer = Callable[[Sequence[Any], int], None]
"""The observer: it gets the events and the time of their decision, in ms."""


class ObservedMachine(Generic[E, R]):
    """A `decisions.Machine` around `machine`. Reverted events are never observed."""

    def __init__(self, machine: Machine[E, R, Any], journal: Journal, observer: Observer) -> None:
        self.machine = machine
        self.replay, self.encode, self.decode, self.timers = machine.replay, machine.encode, machine.decode, machine.timers
        self._decide = machine.decide
        self._decide_smaller = machine.decide_smaller
        self._journal = journal
        self._observer = observer

    def decide(self, event: E | Expired, now_ms: int) -> Decision[R, Any]:
        decision = self._decide(event, now_ms)
        if events := decision.events:
            self._journal.when_committed(lambda: self._committed(events, now_ms))
        return decision

    def decide_smaller(self, event: E | Expired, now_ms: int) -> Decision[R, Any] | None:
        decision = self._decide_smaller(event, now_ms)
        if decision is not None and (events := decision.events):
            self._journal.when_committed(lambda: self._committed(events, now_ms))
        return decision

    def _committed(self, events: Sequence[object], now_ms: int) -> None:
        try:
            self._observer(events, now_ms)
        except Exception:
            log.exception("committed events cannot be observed")
