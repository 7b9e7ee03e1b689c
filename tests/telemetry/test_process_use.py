"""What a process uses, as the collector of Prometheus' Python library tells it."""

from collections.abc import Generator
from pathlib import Path

import pytest
from prometheus_client.process_collector import ProcessCollector

from libs.telemetry.definitions import LOOKED_AT_ONCE
from libs.telemetry.process_use import ProcessUse, entries_of


def test_names_and_values_are_the_library_s() -> None:
    theirs = {family.name: family for family in ProcessCollector(registry=None).collect()}
    ours = {family.name: family for family in ProcessUse().collect()}
    assert ours.keys() == theirs.keys()
    for name, family in ours.items():
        assert family.type == theirs[name].type
        (sample,), (expected,) = family.samples, theirs[name].samples
        assert sample.name == expected.name
        # The library's has a descriptor of the directory that it lists, and both allocate.
        assert sample.value == pytest.approx(expected.value, rel=0.05, abs=2)


def counted(counting: Generator[None, None, int]) -> tuple[int, int]:
    """What it returns, and how often it paused."""
    pauses = 0
    try:
        while True:
            next(counting)
            pauses += 1
    except StopIteration as end:
        return end.value, pauses


def test_many_descriptors_are_counted_with_pauses(tmp_path: Path) -> None:
    for number in range(2 * LOOKED_AT_ONCE + 1):
        (tmp_path / str(number)).touch()
    assert counted(entries_of(tmp_path)) == (2 * LOOKED_AT_ONCE + 1, 2)
