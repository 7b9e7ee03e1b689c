"""A machine with an observer of its committed events, and a log of its decisions."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from libs.coordinator.core.decisions import Decision, Expired, Machine
from libs.coordinator.core.tables import Journal

log = logging.getLogger("coordinators")

E = TypeVar("E")
R = TypeVar("R")

Observer = Callable[[Sequence[Any], int], None]
"""The observer: it gets the events and the time of their decision, in ms."""


class IsLogged(Protocol):
    @property
    def debug(self) -> bool: ...


class DecisionLog(Protocol):
    """What logs decisions."""

    @property
    def switches(self) -> IsLogged:
        """Whether anything is logged: `line` is not called otherwise."""
        ...

    def line(self, event: Any, decision: Decision[Any, Any]) -> Callable[[], None] | None:
        """What writes the line of a decision that has not been replayed yet. It is called once that is committed. None: there is
        no line."""
        ...


class _Silent:
    debug = False


class ObservedMachine(Generic[E, R]):
    """A `decisions.Machine` around `machine`. Reverted events are never observed."""

    def __init__(
        self, machine: Machine[E, R, Any], journal: Journal, observer: Observer, decision_log: DecisionLog | None = None
    ) -> None:
        self.machine = machine
        self.replay, self.encode, self.decode, self.timers = machine.replay, machine.encode, machine.decode, machine.timers
        self._decide = machine.decide
        self._decide_smaller = machine.decide_smaller
        self._journal = journal
        self._observer = observer
        self._decision_log = decision_log
        self._logged: IsLogged = decision_log.switches if decision_log is not None else _Silent()

    def decide(self, event: E | Expired, now_ms: int) -> Decision[R, Any]:
        decision = self._decide(event, now_ms)
        if self._logged.debug:
            self._log(event, decision)
        if events := decision.events:
            self._journal.when_committed(lambda: self._committed(events, now_ms))
        return decision

    def decide_smaller(self, event: E | Expired, now_ms: int) -> Decision[R, Any] | None:
        decision = self._decide_smaller(event, now_ms)
        if decision is not None and (events := decision.events):
            self._journal.when_committed(lambda: self._committed(events, now_ms))
        return decision

    def _log(self, event: E | Expired, decision: Decision[R, Any]) -> None:
        assert self._decision_log is not None
        try:
            write = self._decision_log.line(event, decision)
        except Exception:
            log.exception("a decision cannot be logged")
            return
        if write is not None:
            self._journal.when_committed(lambda: self._write(write))

    def _write(self, write: Callable[[], None]) -> None:
        try:
            write()
        except Exception:
            log.exception("a decision cannot be logged")

    def _committed(self, events: Sequence[object], now_ms: int) -> None:
        try:
            self._observer(events, now_ms)
        except Exception:
            log.exception("committed events cannot be observed")
