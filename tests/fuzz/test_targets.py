"""Each seed of each target passes its oracle: what `make fuzz` begins with is sound, also where atheris is not installed."""

import pytest

from tests.fuzz.targets import RUNS, target


@pytest.mark.parametrize("name", RUNS)
def test_every_seed_passes(name: str) -> None:
    seeds = list(target(name).seeds())
    assert len(seeds) >= 8
    for seed in seeds:
        target(name).check(seed)


@pytest.mark.parametrize("name", RUNS)
def test_whatever_short_input_comes_passes(name: str) -> None:
    for number in range(0, 1_024, 5):
        target(name).check(number.to_bytes(2, "big")[: number % 3])
