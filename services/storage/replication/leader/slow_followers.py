"""Followers that hold up acks=all. A follower that stops for a moment now and then stays in sync, and no other view tells of it.

A Produce waits for the slowest replica of the maximal ISR. If it waited for long, and a follower's progress ended the wait, that
follower held it up. What ends otherwise is told elsewhere: a smaller ISR by its own line, a slow disk of this node by its rounds.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from libs.telemetry.limited_lines import LimitedLines
from services.storage.partition.partition import Partition
from services.storage.storage_meters import StorageMeters

log = logging.getLogger("replication")

HELD_UP_S: Final = 0.5
"""A Produce that waited so long was held up."""
APART_S: Final = 1.0
"""Waits that end within so long of each other are one: all partitions of the follower waited."""
AGAIN: Final = 5
"""So many times within `WITHIN_S` are again and again."""
WITHIN_S: Final = 600.0
LINES_S: Final = 60.0

Changed = Callable[[tuple[int, ...]], None]
"""Called with the followers that hold up acks=all again and again, whenever they are others than before."""


class SlowFollowers:
    def __init__(self, meters: StorageMeters, on_changed: Changed) -> None:
        self._meters = meters
        self._loop = asyncio.get_running_loop()
        self._on_changed = on_changed
        self._times: dict[int, deque[float]] = {}
        self._reported: tuple[int, ...] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._lines = LimitedLines(log, LINES_S, self._loop)

    def committed(self, partition: Partition, waited_s: float) -> None:
        """Takes the longest wait of produces that were answered just now."""
        follower = partition.replica.raised_by
        if waited_s < HELD_UP_S or follower in (-1, partition.node_id):
            return
        now = self._loop.time()
        times = self._times.setdefault(follower, deque(maxlen=AGAIN))
        is_new = not times or now - times[-1] >= APART_S
        if not is_new:
            return
        times.append(now)
        self._meters.held_up_by[follower] = self._meters.held_up_by.get(follower, 0) + 1
        self._lines.write(
            follower,
            logging.WARNING,
            "a follower holds up acks=all",
            follower=follower,
            partition=str(partition),
            waited_ms=round(waited_s * 1000),
        )
        self._look()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Tells of followers that count from now on, or no more."""
        self.close()
        self._timer = None
        oldest = self._loop.time() - WITHIN_S
        counting = {node: times[0] for node, times in self._times.items() if len(times) == AGAIN and times[0] > oldest}
        if counting:
            self._timer = self._loop.call_at(min(counting.values()) + WITHIN_S, self._look)
        if (slow := tuple(sorted(counting))) != self._reported:
            self._reported = slow
            self._on_changed(slow)
