"""The stages in which the time of a request goes."""

import pytest

from libs.telemetry.definitions import HistogramDefinition
from libs.telemetry.durations import LATENCY_BUCKETS, Durations
from libs.telemetry.stages import Stage, StageDurations


def test_an_observation_falls_into_the_first_bucket_that_it_fits() -> None:
    durations = Durations()
    for seconds in (LATENCY_BUCKETS[0], LATENCY_BUCKETS[0] * 1.01, 1e9):
        durations.observe(seconds)
    counts = [count for _, count in durations.cumulative()]
    assert counts == [1.0] + [2.0] * (len(LATENCY_BUCKETS) - 1) + [3.0]
    assert durations.cumulative()[-1][0] == "+Inf"
    assert durations.total_s == pytest.approx(1e9)


def test_one_observation_may_stand_for_several() -> None:
    durations = Durations()
    durations.observe(0.5, 7)
    assert (durations.count, durations.total_s) == (7, 3.5)


def test_each_stage_has_a_histogram_of_its_own() -> None:
    stages = StageDurations(Stage.APPENDED, Stage.SYNCED)
    stages.of(Stage.SYNCED).observe(2.0)
    family = HistogramDefinition(name="x", help="", labels=("api", "stage"), healthy="").family(stages.samples("produce"))
    counts = {tuple(sample.labels.values()): sample.value for sample in family.samples if sample.name == "x_count"}
    assert counts == {("produce", "appended"): 0.0, ("produce", "synced"): 1.0}


def test_things_that_took_no_time_are_in_the_first_bucket() -> None:
    durations = Durations()
    durations.observe(0.5)
    padded = durations.with_zeros(10)
    assert (padded.count, padded.total_s) == (10, 0.5)
    assert padded.cumulative()[0] == (durations.cumulative()[0][0], 9.0)
    assert (durations.count, durations.with_zeros(0).count) == (1, 1)
