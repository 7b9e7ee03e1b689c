"""The stages of an append at a storage node, and the time from each stage to the next.

An append carries the times of its stages itself, as plain floats of the loop's clock, read once for all appends of a turn. That
costs a fraction of a microsecond. Histograms are filled from them at its end. The stages of a client's request are in
`services/gateway/request_meters.py`.
"""

from collections.abc import Iterator
from enum import IntEnum

from libs.telemetry.durations import Durations


class Stage(IntEnum):
    """The stages after the arrival, in their order. Not every append passes both."""

    APPENDED = 0
    SYNCED = 1


class StageDurations:
    """One histogram per stage, of the time since the stage before. Keep `of(stage)`: looking it up costs more than filling it."""

    __slots__ = ("_durations",)

    def __init__(self, *stages: Stage) -> None:
        self._durations = {stage: Durations() for stage in stages}

    def of(self, stage: Stage) -> Durations:
        return self._durations[stage]

    def __iter__(self) -> Iterator[tuple[Stage, Durations]]:
        return iter(self._durations.items())

    def samples(self, *labels: str) -> Iterator[tuple[tuple[str, ...], Durations]]:
        """One sample for each stage, for a `HistogramDefinition` whose last label is the stage's."""
        for stage, durations in self:
            yield (*labels, stage.name.lower()), durations
