"""Does the net catch fish? Bugs planted into a whole cluster; `mutants.py` has more, and tells how many seeds each takes."""

import pytest

from tests.simulation.cluster.mutants import seeds_to_catch

SHORT_S = 20.0


@pytest.mark.parametrize("name", ["the leader counts itself alone", "duplicates are stored"])
def test_a_planted_bug_is_caught_by_a_short_run(name: str) -> None:
    count, report = seeds_to_catch(name, faulty_s=SHORT_S)
    assert report is not None, f"{count - 1} seeds did not notice"
