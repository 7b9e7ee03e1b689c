"""What coordinators say of groups and transactions that take too long, as their heartbeats bring it. Pure."""

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from operator import attrgetter
from typing import Final

from libs.cluster.health import SHOWN_MAX, LongRunning
from libs.rpc.contracts.controller import FINDING_NAME_LENGTH_MAX, FINDINGS_MAX, Finding
from services.controller.core.failure_detection.liveness import Process

KEPT_MS: Final = 5_000
"""How long the findings of a heartbeat count, if no other comes."""


class ReportedFindings:
    """The findings of all registered processes."""

    def __init__(self) -> None:
        self._reports: dict[Process, tuple[int, tuple[Finding, ...]]] = {}
        """By process, when its last heartbeat with findings came, and these."""

    def watch(self, registered: Iterable[Process]) -> None:
        """Drops the findings of all other processes."""
        self._reports = {process: self._reports[process] for process in registered if process in self._reports}

    def report(self, process: Process, findings: tuple[Finding, ...], now_ms: int) -> None:
        """Replaces what that process found before."""
        if findings:
            self._reports[process] = now_ms, findings[:FINDINGS_MAX]
        else:
            self._reports.pop(process, None)

    def longest(self, now_ms: int) -> Sequence[LongRunning]:
        """At most `SHOWN_MAX` of them, the longest first."""
        reports = [found for came_ms, found in self._reports.values() if now_ms - came_ms < KEPT_MS]
        found = nsmallest(SHOWN_MAX, (each for those in reports for each in those), key=attrgetter("since_ms"))
        return [LongRunning(each.kind, each.name[:FINDING_NAME_LENGTH_MAX], each.since_ms) for each in found]
