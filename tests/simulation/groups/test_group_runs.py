"""Short: `make simulate KIND=groups` makes thousands of runs."""

from collections import Counter

import pytest

from tests.simulation.groups.group_world import KINDS
from tests.simulation.groups.mutants import BUGS
from tests.simulation.groups.run import run_one
from tests.simulation.small_runs import digests_of

SEEDS = 80


def test_groups_keep_their_promises_through_faults() -> None:
    kinds: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    asked = acknowledged = fetched = generations = owners = 0
    for seed in range(SEEDS):
        report = run_one(seed)
        assert report.violations == [], f"make simulate KIND=groups SEED={seed} STORY=1"
        kinds[report.kind] += 1
        faults.update(report.faults)
        asked, acknowledged = asked + report.asked, acknowledged + report.acknowledged
        fetched, generations = fetched + report.fetched, generations + report.generations
        owners += report.owners
    assert set(kinds) == set(KINDS)
    assert len(faults) == 17
    assert min(faults.values()) > SEEDS // 10
    assert asked > 120 * SEEDS
    assert acknowledged > 20 * SEEDS
    assert fetched > 8 * SEEDS
    assert generations > 5 * SEEDS
    assert owners > 2 * SEEDS


def test_another_process_replays_group_seeds_step_by_step() -> None:
    """The hash order differs between the processes: nothing may depend on it."""
    digests = [run_one(seed).digest for seed in range(8)]
    assert {len(digest) for digest in digests} == {64}
    assert f"{digests}\n" == digests_of("tests.simulation.groups", range(8), "77")


@pytest.mark.parametrize("name", BUGS.caught)
def test_a_bug_planted_into_groups_is_caught(name: str) -> None:
    """`make simulate KIND=planted` has those that take more seeds, too."""
    assert BUGS.seeds_to_catch(name, seeds=range(300)).violation is not None
