import pytest

from tests.simulation.quotas.mutants import BUGS
from tests.simulation.quotas.run import MUTATIONS_EVERY, run_one
from tests.simulation.quotas.seeds import LEAST_THROTTLED
from tests.simulation.small_runs import digests_of

SEEDS = range(4)
"""One faultless run, two with faults, and one in which quotas change."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_limit_holds_wherever_the_load_arrives(seed: int) -> None:
    report = run_one(seed)
    assert report.violations == [], f"make simulate KIND=quotas SEED={seed} STORY=1"
    assert report.throttled > LEAST_THROTTLED


def test_changes_of_topics_keep_their_limit_over_failovers() -> None:
    report = run_one(MUTATIONS_EVERY - 1)
    assert report.violations == [], f"make simulate KIND=quotas SEED={report.seed} STORY=1"
    assert report.throttled > 0


def test_another_process_which_hashes_differently_replays_a_seed() -> None:
    assert run_one(1).digest in digests_of("tests.simulation.quotas", [1], "77")


@pytest.mark.parametrize("name", BUGS.caught)
def test_a_bug_planted_into_quotas_is_caught(name: str) -> None:
    assert BUGS.seeds_to_catch(name).violation is not None
