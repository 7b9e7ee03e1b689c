"""The same random workloads and power cuts, with segments whose space is reserved and that roll at ages of their own."""

from dataclasses import replace

import pytest

from tests.simulation.run import Run


@pytest.mark.parametrize("seed", range(1000, 1004))
def test_reserved_and_jittered_segments_survive_every_crash_point(seed: int) -> None:
    run = Run(seed, steps=40)
    run.config = replace(run.config, preallocate=True, segment_ms=5000, segment_jitter_ms=4000)
    assert run.run().crash_points > 50
