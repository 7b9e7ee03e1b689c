"""Short: `make simulate KIND=component` makes thousands of runs."""

from collections import Counter
from typing import Any

import pytest

from services.storage.produce.appends import Appends
from tests.simulation.replication.memory_log import epoch_of
from tests.simulation.replication.mutants import BUGS, CAUGHT_WITHIN, RARE
from tests.simulation.replication.run import FAULTY_S, ReplicationRun, run_one
from tests.simulation.small_runs import digests_of

SEEDS = 100


def test_replicas_keep_their_promises_through_faults() -> None:
    kinds: Counter[str] = Counter()
    acknowledged = elections = 0
    for seed in range(SEEDS):
        report = run_one(seed)
        assert report.violations == [], f"make simulate KIND=component SEED={seed} STORY=1"
        kinds.update(report.kinds)
        acknowledged, elections = acknowledged + report.acknowledged, elections + report.elections
    assert len(kinds) == 12
    assert min(kinds.values()) > SEEDS // 10
    assert acknowledged > 30 * SEEDS
    assert elections > SEEDS


def test_another_process_replays_component_seeds_step_by_step() -> None:
    """The hash order differs between the processes: nothing may depend on it."""
    digests = [run_one(seed).digest for seed in (1, 2, 3)]
    assert {len(digest) for digest in digests} == {64}
    assert f"{digests}\n" == digests_of("tests.simulation.replication", (1, 2, 3), "77")


class _MovedAtTheEnd(ReplicationRun):
    """The leader is replaced just when nothing is missing any more."""

    moved = False

    def _missing(self) -> str:
        missing = super()._missing()
        if missing or self.moved:
            return missing
        self.moved = True
        state = self.controller.state
        self.controller.lead(next(member for member in state.isr if member.node_id != state.leader))
        return "another leader"


@pytest.mark.parametrize("seed", range(10))
def test_at_rest_the_leader_of_the_newest_epoch_was_written_to(seed: int) -> None:
    """Else a replica may be ahead of it that has yet to be cut: in seed 95423179 logs of 67, 56 and 56 batches were compared."""
    run = _MovedAtTheEnd(seed)
    try:
        assert run.run().violations == []
        assert run.moved
        assert {epoch_of(node.log.batches[-1]) for node in run.nodes} == {run.controller.state.leader_epoch}
    finally:
        run.simulator.discard()


def test_a_partition_that_takes_nothing_after_all_has_healed_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    run = ReplicationRun(1)

    def accept(appends: Appends, call: Any) -> None:
        if run.simulator.loop.time() < 1000.0 + FAULTY_S:
            taken(appends, call)
        else:
            call.fail(0, "it takes nothing")

    taken = Appends.accept
    monkeypatch.setattr(Appends, "accept", accept)
    try:
        violation, *_ = run.run().violations
    finally:
        run.simulator.discard()
    assert "15: nothing is written in epoch" in violation


@pytest.mark.parametrize("name", [name for name in BUGS.caught if name not in RARE])
def test_a_bug_planted_into_replication_is_caught(name: str) -> None:
    """`make simulate KIND=planted` has those that take more seeds, too."""
    assert BUGS.seeds_to_catch(name, seeds=range(CAUGHT_WITHIN)).violation is not None
