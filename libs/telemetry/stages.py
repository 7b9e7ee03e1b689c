"""A handful of monotonic timestamps per request, from which metrics come at once and spans, if anybody wants one, afterwards."""

from collections.abc import Callable
from enum import IntEnum


class Stage(IntEnum):
    """In the order in which a request passes them; not every request passes all."""

    RECEIVED = 0
    PARSED = 1
    AUTHORISED = 2
    THROTTLED = 3
    SENT = 4
    APPENDED = 5
    SYNCED = 6
    REPLICATED = 7
    ANSWERED = 8


class StageClock:
    """Started when it is made (`Stage.RECEIVED`). `monotonic` is `loop.time` or `Clock.monotonic`, in seconds."""

    __slots__ = ("_marks", "_monotonic")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._marks: list[tuple[Stage, float]] = [(Stage.RECEIVED, monotonic())]

    def mark(self, stage: Stage) -> None:
        self._marks.append((stage, self._monotonic()))

    def at(self, stage: Stage) -> float | None:
        """When the stage was passed; the last time, if it was several times."""
        return next((at for passed, at in reversed(self._marks) if passed is stage), None)

    def durations(self) -> dict[Stage, float]:
        """Seconds from the mark before to each mark. Their sum is `elapsed`."""
        durations: dict[Stage, float] = {}
        before = self._marks[0][1]
        for stage, at in self._marks[1:]:
            durations[stage] = durations.get(stage, 0.0) + at - before
            before = at
        return durations

    @property
    def elapsed(self) -> float:
        """Seconds from the first mark to the last."""
        return self._marks[-1][1] - self._marks[0][1]
