"""A group machine with an observer of its committed events."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from libs.coordinator.decisions import Decision, Expired, Machine
from libs.coordinator.tables import Journal
from services.group_coordinator.core.model.requests import Reply, RequestEvent

log = logging.getLogger(__name__)

Observer = Callable[[Sequence[Any], int], None]
"""The observer: it gets the events and the time of their decision, in ms."""


class ObservedMachine:
    """A `decisions.Machine` around `machine`. Reverted events are never observed."""

    def __init__(self, machine: Machine[RequestEvent, Reply, Any], journal: Journal, observer: Observer) -> None:
        self.machine = machine
        self.replay, self.encode, self.decode, self.timers = machine.replay, machine.encode, machine.decode, machine.timers
        self._decide = machine.decide
        self._journal = journal
        self._observer = observer

    def decide(self, event: RequestEvent | Expired, now_ms: int) -> Decision[Reply, Any]:
        decision = self._decide(event, now_ms)
        if events := decision.events:
            self._journal.when_committed(lambda: self._committed(events, now_ms))
        return decision

    def _committed(self, events: Sequence[object], now_ms: int) -> None:
        try:
            self._observer(events, now_ms)
        except Exception:
            log.exception("group events cannot be recorded")
