"""What keeps an event loop from its work: long turns, and garbage collections."""

import asyncio
import gc
from time import perf_counter
from typing import Final

from libs.telemetry.definitions import HistogramDefinition, MetricSet, Rows
from libs.telemetry.durations import Durations

EVERY_S: Final = 0.5
GENERATIONS: Final = 3


class Interruptions(MetricSet):
    """Those of the process between `start`, which is called on its event loop, and `stop`."""

    lag: Durations = HistogramDefinition(
        name="penstock_event_loop_lag_seconds",
        help="Time by which a timer of the event loop ran late. There is one every half a second.",
        healthy="99 % below 10 ms",
        otherwise="Requests waited for so long, too. Near one core of `process_cpu_seconds_total`, add a process of that kind. "
        "Otherwise something else takes the CPU of the host, or `penstock_gc_pause_seconds` has the time.",
    ).kept()

    def __init__(self) -> None:
        super().__init__()
        self._pauses = [Durations() for _ in range(GENERATIONS)]
        self._began_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @HistogramDefinition(
        name="penstock_gc_pause_seconds",
        help="Time of a garbage collection, in which the process does nothing else, by generation.",
        labels=("generation",),
        healthy="generations 0 and 1 below 5 ms, and generation 2 below 100 ms",
        otherwise="The process holds many objects: fewer partitions, groups or connections for each process make it shorter.",
    )
    def pauses(self) -> Rows:
        return [((str(generation),), durations) for generation, durations in enumerate(self._pauses)]

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(EVERY_S, self._look, loop, loop.time() + EVERY_S)
        gc.callbacks.append(self._collecting)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            gc.callbacks.remove(self._collecting)

    def _look(self, loop: asyncio.AbstractEventLoop, due_at: float) -> None:
        now = loop.time()
        self.lag.observe(max(0.0, now - due_at))
        self._timer = loop.call_at(now + EVERY_S, self._look, loop, now + EVERY_S)

    def _collecting(self, phase: str, info: dict[str, int]) -> None:
        now = perf_counter()
        if phase == "start":
            self._began_at = now
        else:
            self._pauses[info["generation"]].observe(now - self._began_at)
