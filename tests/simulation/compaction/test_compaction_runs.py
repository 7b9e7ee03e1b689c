"""Short: `make simulate KIND=compaction` makes more runs."""

import pytest

from tests.simulation.compaction.mutants import BUGS
from tests.simulation.compaction.run import run_one
from tests.simulation.compaction.seeds import LEAST_TABLES, POINTS
from tests.simulation.small_runs import digests_of


def test_deleted_keys_stay_deleted_through_restarts_and_topics_made_anew() -> None:
    """Another process, which hashes differently, replays the seed step by step."""
    report = run_one(1)
    assert report.violations == [], "make simulate KIND=compaction SEED=1 STORY=1"
    assert [name for name in POINTS if not report.sometimes[name]] == []
    assert report.tables > LEAST_TABLES
    assert report.digest in digests_of("tests.simulation.compaction", [1], "77")


@pytest.mark.parametrize("name", BUGS.caught)
def test_a_bug_planted_into_compaction_is_caught(name: str) -> None:
    assert BUGS.seeds_to_catch(name).violation is not None
