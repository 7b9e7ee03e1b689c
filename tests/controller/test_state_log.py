"""DEBUG lines of the active controller: each election and ISR change, why it was decided, and that it is written."""

import logging
from dataclasses import replace

import pytest

from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import InSync, Member, PartitionState, Replica
from libs.rpc.contracts.controller import PREFERRED, AlterPartitions, ElectLeaders, NewIsr, NewTopic
from services.controller.administration.isr_changes import change_isrs
from services.controller.core.elections.leader_election import leader_of, led_by
from services.controller.core.elections.state_reasons import healths, why_changed
from services.controller.core.model.cuts import Cuts
from services.controller.core.model.replica_health import live_nodes
from services.controller.core.partitions.partition_reconciler import reconcile
from tests.cluster.conftest import run_virtually
from tests.controller.images import storage
from tests.controller.running_controller import register, running_controller, vanish
from tests.support.polling import until

STATE = PartitionState(tuple(Replica(n, f"d{n}") for n in (1, 2, 3)), 1, 1, 4, 4, (InSync(1, 1), InSync(2, 1), InSync(3, 1)))
ALL = {node_id: storage(node_id) for node_id in (1, 2, 3)}


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({1: None}, "node 1 is dead"),
        ({1: storage(1, 2)}, "node 1 has restarted, and may lack records"),
        ({1: replace(storage(1, 2), survived_from=1)}, "node 1 has restarted"),
        ({1: replace(storage(1), stopping=True)}, "node 1 stops"),
        ({1: storage(1, log_dirs=("other",))}, "node 1 lacks the log directory"),
        ({2: None}, "node 2 is dead"),
        ({1: None, 3: None}, "node 1 is dead; node 3 is dead"),
    ],
)
def test_a_state_that_the_controller_changes_has_a_reason(members: dict[int, Member | None], why: str) -> None:
    present = {node_id: member for node_id, member in (ALL | members).items() if member is not None}
    live = live_nodes(present)
    assert why_changed(STATE, reconcile(STATE, live), live) == why


def test_a_partition_whose_first_leader_comes_back_had_none() -> None:
    before = led_by(replace(STATE, isr=(InSync(1, 1),)), None)
    live = live_nodes(ALL)
    assert why_changed(before, reconcile(before, live), live) == "it had no leader"


def test_a_leader_that_others_do_not_reach_is_replaced_for_that() -> None:
    live = live_nodes(ALL, Cuts(callers={1: 2}, peers={}))
    after = led_by(STATE, leader_of(STATE, live))
    assert (after.leader, why_changed(STATE, after, live)) == (2, "some processes do not reach node 1")


def test_a_leader_that_is_removed_is_replaced_for_that() -> None:
    before = replace(STATE, removing=(1,))
    live = live_nodes(ALL)
    assert why_changed(before, led_by(before, InSync(2, 1)), live) == "node 1 is removed from the replicas"


def test_a_member_that_joins_the_isr_is_in_sync() -> None:
    before = replace(STATE, isr=(InSync(1, 1),))
    assert why_changed(before, STATE, live_nodes(ALL)) == "node 2 is in sync; node 3 is in sync"


def test_the_condition_of_each_member_is_told() -> None:
    live = live_nodes({1: storage(1), 2: storage(2, 5)})
    assert healths(STATE, live) == {1: "steady", 2: "doubtful", 3: "dead"}


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, object]]:
    return [record.__dict__["fields"] for record in caplog.records if record.name == "elections" and record.message == event]


def test_each_step_of_an_election_has_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "elections")

    async def scenario() -> None:
        store = MemoryStore()
        for node_id in (1, 2):
            await register(store, storage(node_id))
        async with running_controller(store) as running:
            await running.elected()
            await running.create(NewTopic("t", -1, -1, ((0, (1, 2)),)))
            caplog.clear()
            await vanish(store, 1)
            await until(lambda: lines(caplog, "partition states written"))
            (decided,) = lines(caplog, "election decided")
            told = {
                "topic": "t",
                "partition": 0,
                "why": "node 1 is dead",
                "was_leader": 1,
                "leader": 2,
                "isr": [2],
                "was_isr": [1, 2],
            }
            assert told.items() <= decided.items()
            assert decided["health"] == {1: "dead", 2: "steady"}
            (written,) = lines(caplog, "partition states written")
            assert written["partitions"] == 1
            await register(store, storage(1, 2))
            caplog.clear()
            ((key, _, state),) = running.image.states()
            proposal = NewIsr(key, 0, state.leader_epoch, state.partition_epoch, ((2, 1), (1, 2)))
            request = AlterPartitions(2, 1, (proposal,))
            await running.controller.administer(lambda administration, term: change_isrs(tuple, administration, term, request))
            (joined,) = lines(caplog, "ISR decided")
            assert (joined["why"], joined["isr"]) == ("node 2 proposes it; node 1 is in sync", [2, 1])
            caplog.clear()
            moved = ElectLeaders(PREFERRED, (("t", 0),), "admin from tcp:10.0.0.7:1")
            await running.controller.elect_leaders(moved)
            (asked,) = lines(caplog, "election decided")
            assert (asked["why"], asked["leader"]) == ("asked by admin from tcp:10.0.0.7:1", 1)

    run_virtually(scenario())


def test_without_debug_nothing_is_worked_out(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.INFO, "elections")

    def unexpected(*_: object) -> str:
        raise AssertionError("nobody reads it")

    monkeypatch.setattr("services.controller.term.state_log.why_changed", unexpected)

    async def scenario() -> None:
        store = MemoryStore()
        for node_id in (1, 2):
            await register(store, storage(node_id))
        async with running_controller(store) as running:
            await running.elected()
            await running.create(NewTopic("t", -1, -1, ((0, (1, 2)),)))
            await vanish(store, 1)
            await running.image_when(lambda image: [state.leader for _, _, state in image.states()] == [2])

    run_virtually(scenario())
