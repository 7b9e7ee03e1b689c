"""Which storage nodes other processes cannot reach, as their heartbeats say. Pure.

A node may live, and send heartbeats, while one gateway or one follower hears nothing from it: a network that drops packets one
way, or between two hosts. It is not dead, so nothing is taken from it. Elections prefer leaders that more processes reach.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from libs.cluster.records import STORAGE
from services.controller.core.failure_detection.liveness import Process
from services.controller.core.model.cuts import NO_CUTS, Cuts

KEPT_MS: Final = 10_000
"""How long a report holds after the last heartbeat that made it. Leaderships do not go to and fro with a network that does."""


class Reachability:
    """The reports of all registered processes."""

    def __init__(self) -> None:
        self._reports: dict[Process, dict[int, int]] = {}  # the node, and when it was named last

    def watch(self, registered: Iterable[Process]) -> None:
        """Drops the reports of all other processes."""
        self._reports = {process: self._reports[process] for process in registered if process in self._reports}

    def report(self, process: Process, unreachable: Iterable[int], now_ms: int) -> None:
        for node_id in unreachable:
            self._reports.setdefault(process, {})[node_id] = now_ms

    def cuts(self, now_ms: int) -> Cuts:
        callers: dict[int, int] = defaultdict(int)
        peers: dict[int, set[int]] = defaultdict(set)
        for process, nodes in self._reports.items():
            for node_id, named_ms in nodes.items():
                if now_ms - named_ms >= KEPT_MS:
                    continue
                if process.role == STORAGE:
                    peers[node_id].add(process.node_id)
                    peers[process.node_id].add(node_id)
                else:
                    callers[node_id] += 1
        if not callers and not peers:
            return NO_CUTS
        return Cuts(dict(callers), {node_id: frozenset(others) for node_id, others in peers.items()})
