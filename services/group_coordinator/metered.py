"""A machine of whose decisions it is told what happened, once they are committed."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from libs.runtime.shards.decisions import Decision, Expired, Machine
from libs.runtime.shards.tables import Journal
from services.group_coordinator.core.asked import Asked, Reply

log = logging.getLogger(__name__)

Tell = Callable[[Sequence[Any], int], None]
"""What happened, and when it was decided, in ms."""


class Metered:
    """A `decisions.Machine` around `machine`, which is there to be looked at. What is taken back is never told."""

    def __init__(self, machine: Machine[Asked, Reply, Any], journal: Journal, tell: Tell) -> None:
        self.machine = machine
        self.replay, self.encode, self.decode, self.timers = machine.replay, machine.encode, machine.decode, machine.timers
        self._decide = machine.decide
        self._journal = journal
        self._tell = tell

    def decide(self, event: Asked | Expired, now_ms: int) -> Decision[Reply, Any]:
        decision = self._decide(event, now_ms)
        if happened := decision.happened:
            self._journal.when_committed(lambda: self._committed(happened, now_ms))
        return decision

    def _committed(self, happened: Sequence[object], now_ms: int) -> None:
        try:
            self._tell(happened, now_ms)
        except Exception:
            log.exception("what happened cannot be told")
