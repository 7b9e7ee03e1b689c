"""Short: `make simulate KIND=transactions` makes thousands of runs."""

from collections import Counter

import pytest

from tests.simulation.small_runs import digests_of
from tests.simulation.transactions.mutants import BUGS
from tests.simulation.transactions.run import run_one
from tests.simulation.transactions.world import LONG_TURNS

SEEDS = 50


def test_transactions_keep_their_promises_through_faults() -> None:
    generations: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    committed = aborted = read = owners = 0
    for seed in range(SEEDS):
        report = run_one(seed)
        assert report.violations == [], f"make simulate KIND=transactions SEED={seed} STORY=1"
        generations.update(report.generations)
        faults.update(report.faults)
        committed, aborted = committed + report.committed, aborted + report.aborted
        read, owners = read + report.read, owners + report.owners
    assert set(generations) == {"TV0", "TV1", "TV2"}
    assert len(faults) == 19
    assert min(faults.values()) > SEEDS // 10
    assert committed > 5 * SEEDS
    assert aborted > 2 * SEEDS
    assert read > 40 * SEEDS
    assert owners > 2 * SEEDS


def test_transactions_keep_their_promises_where_shards_append_together() -> None:
    joined_appends = 0
    for seed in LONG_TURNS[:16]:
        report = run_one(seed)
        assert report.violations == [], f"make simulate KIND=transactions SEED={seed} STORY=1"
        joined_appends += report.joined_appends
    assert joined_appends


def test_another_process_replays_transaction_seeds_step_by_step() -> None:
    """The hash order differs between the processes: nothing may depend on it."""
    digests = [run_one(seed).digest for seed in (1, 2, 3)]
    assert {len(digest) for digest in digests} == {64}
    assert f"{digests}\n" == digests_of("tests.simulation.transactions", (1, 2, 3), "77")


@pytest.mark.parametrize("name", BUGS.caught)
def test_a_bug_planted_into_transactions_is_caught(name: str) -> None:
    """`make simulate KIND=planted` has those that take more seeds, too."""
    assert BUGS.seeds_to_catch(name).violation is not None
