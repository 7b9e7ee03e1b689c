"""A run that time cut short proves nothing, and must say so."""

from collections import Counter

import pytest

from tests.simulation.budget import too_few
from tests.simulation.cluster import seed_reports
from tests.simulation.groups import seeds as groups
from tests.simulation.replication import seeds as component
from tests.simulation.small_runs import conclude


@pytest.mark.parametrize(("count", "most"), [(0, 0), (0, 1), (3, 4), (3, 30), (4, 41), (9, 100), (1599, 16_000)])
def test_too_few_seeds_are_a_failure(count: int, most: int) -> None:
    assert too_few(count, most).startswith(f"TOO FEW: {count} of {most} ")


@pytest.mark.parametrize(("count", "most"), [(1, 1), (2, 2), (4, 4), (4, 40), (10, 100), (1600, 16_000)])
def test_enough_seeds_are_none(count: int, most: int) -> None:
    assert too_few(count, most) == ""


@pytest.mark.parametrize("run_seeds", [seed_reports.run_seeds, component.run_seeds, groups.run_seeds])
def test_a_run_without_time_fails(run_seeds: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_seeds(0, 8, 0.0) == 1  # type: ignore[operator]
    assert "TOO FEW: 0 of 8" in capsys.readouterr().out


def test_the_end_of_the_output_names_the_seeds_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert conclude("groups", 10, 10, {7: "offset 3 is lost"}, Counter({"a coordinator died": 4})) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "seed 7 failed: offset 3 is lost",
        "  replay: make simulate KIND=groups SEED=7",
    ]
