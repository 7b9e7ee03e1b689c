"""What takes too long in a coordinator, for operators: heartbeats carry it to the controllers, whose `/health` names it."""

import logging
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Final

from libs.rpc.contracts.controller import FINDING_NAME_LENGTH_MAX, FINDINGS_MAX, Finding

log = logging.getLogger("coordinators")

MARGIN_MS: Final = 30_000
"""How much longer than its own timeout something may take before it is found: a coordinator that works ends it in this time."""
LOOKED_AT_MAX: Final = 200
"""The groups or transactions of a shard at which one look looks, the longest first."""
LOOK_S: Final = 1.0
"""The time between two looks, in seconds. Heartbeats to several controllers share one."""


class Findings:
    """The newest look. `collect` gives what is found, in any order, and `now` a time in seconds."""

    def __init__(self, collect: Callable[[], Iterable[Finding]], now: Callable[[], float]) -> None:
        self._collect, self._now = collect, now
        self._found: Sequence[Finding] = ()
        self._due = now()

    def newest(self) -> Sequence[Finding]:
        """The longest, at most `FINDINGS_MAX`. It never raises: heartbeats must go on."""
        if self._now() >= self._due:
            self._due = self._now() + LOOK_S
            try:
                self._found = sorted(self._collect(), key=attrgetter("since_ms"))[:FINDINGS_MAX]
            except Exception:
                self._found = ()
                log.exception("a look at what takes too long failed")
        return self._found


def finding(kind: str, name: str, since_ms: int) -> Finding:
    return Finding(kind, name[:FINDING_NAME_LENGTH_MAX], since_ms)
