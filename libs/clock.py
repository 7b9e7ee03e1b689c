"""Clocks for code with I/O. Cores never import this: they get `now_ms` as an argument.

Wall and monotonic time are distinct types, so that a wall time, which may jump, cannot be used for a deadline by mistake. Timers
and deadlines inside asyncio code use `loop.time()`, which is virtual in the simulator.
"""

import time
from typing import NewType, Protocol

WallMs = NewType("WallMs", int)
"""Milliseconds since the Unix epoch. May jump, in both directions."""

Monotonic = NewType("Monotonic", float)
"""Seconds since an arbitrary point. Never goes back."""


class Clock(Protocol):
    def wall_ms(self) -> WallMs: ...

    def wall_ns(self) -> int:
        """The same in nanoseconds, for spans."""
        ...

    def monotonic(self) -> Monotonic: ...


class SystemClock:
    """The operating system's clocks."""

    def wall_ms(self) -> WallMs:
        return WallMs(time.time_ns() // 1_000_000)

    def wall_ns(self) -> int:
        return time.time_ns()

    def monotonic(self) -> Monotonic:
        return Monotonic(time.monotonic())
