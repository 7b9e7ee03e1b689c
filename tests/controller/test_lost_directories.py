"""Nodes that come back without a log directory: which replicas get another one, and which wait for the one that is gone."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import InSync, Member, PartitionState, Replica
from libs.rpc.contracts.controller import NewTopic
from services.controller.core.directories.lost_directories import NewDirectories, nodes_with_new_directories, with_new_directories
from services.controller.core.partitions.partition_reconciler import SteadyPartitions, live_nodes, reconcile
from services.controller.core.partitions.partition_states import follows_the_table
from tests.cluster.conftest import run_virtually
from tests.controller.images import image_of, storage
from tests.controller.running_controller import register, running_controller, vanish

REPLICAS = (Replica(1, "d1"), Replica(2, "d2"))


def two(leader: int, *isr: int, replicas: tuple[Replica, ...] = REPLICAS) -> PartitionState:
    return PartitionState(replicas, leader, 1 if leader >= 0 else 0, 3, 7, tuple(InSync(n, 1) for n in isr))


def back(log_dirs: tuple[str, ...] = ("new",), failed_dirs: int = 0) -> Member:
    """Node 2, in its next life."""
    return replace(storage(2, 2, log_dirs), failed_dirs=failed_dirs)


def reconciled_state(state: PartitionState, *members: Member, others: Sequence[PartitionState] = ()) -> PartitionState:
    """As the keeper of partitions would have it."""
    image = image_of(*members, topics={"t": [state, *others]})
    live = live_nodes(image.members("storage"))
    after = with_new_directories(reconcile(state, live), state, live, NewDirectories(image))
    assert after is state or follows_the_table(state, after)
    assert not SteadyPartitions(live)(state) or after is state
    return after


def test_a_replica_whose_directory_is_gone_gets_another_one_of_its_node() -> None:
    state = two(1, 1)
    after = reconciled_state(state, storage(1), back())
    assert after == replace(state, replicas=(Replica(1, "d1"), Replica(2, "new2")), partition_epoch=8)
    assert nodes_with_new_directories(state, after) == (2,)
    assert reconciled_state(after, storage(1), back()) is after


def test_it_leaves_the_isr_and_gets_another_directory_in_one_step() -> None:
    after = reconciled_state(two(2, 1, 2), storage(1), back())
    assert (after.leader, after.isr, after.replicas[1]) == (1, (InSync(1, 1),), Replica(2, "new2"))
    assert (after.leader_epoch, after.partition_epoch) == (4, 8)


@pytest.mark.parametrize(
    ("leader", "members"), [(-1, ()), (1, (storage(1),))], ids=["the others are dead", "another was out of sync"]
)
def test_the_last_in_sync_waits_for_its_directory(leader: int, members: tuple[Member, ...]) -> None:
    """Acknowledged records may be in the lost directory, and nowhere else."""
    after = reconciled_state(two(2, 2), *members, back())
    assert (after.leader, after.isr, after.replicas) == (-1, (InSync(2, 1),), REPLICAS)


def test_nothing_begins_anew_while_there_is_no_leader_to_copy_from() -> None:
    """It could be elected, uncleanly, with nothing in it."""
    assert reconciled_state(two(-1, 1), back()).replicas == REPLICAS


def test_while_a_directory_of_the_node_only_fails_its_replicas_wait_for_it() -> None:
    assert reconciled_state(two(1, 1), storage(1), back(failed_dirs=1)).replicas == REPLICAS
    assert reconciled_state(two(1, 1), storage(1), back((), failed_dirs=1)).replicas == REPLICAS


def test_a_node_that_is_away_keeps_what_the_state_says() -> None:
    assert reconciled_state(two(1, 1), storage(1)).replicas == REPLICAS


def test_a_replica_that_lies_where_the_state_says_or_has_yet_to_choose_stays() -> None:
    for place in ("d2", ""):
        state = two(1, 1, replicas=(Replica(1, "d1"), Replica(2, place)))
        assert reconciled_state(state, storage(1), back(("new", "d"))) is state


def test_of_two_directories_the_emptier_takes_it() -> None:
    here = two(1, 1, replicas=(Replica(1, "d1"), Replica(2, "one2")))
    after = reconciled_state(two(1, 1), storage(1), back(("one", "two")), others=[here, here])
    assert after.replicas[1] == Replica(2, "two2")


def test_the_replicas_of_one_lost_directory_spread_over_those_that_are_left() -> None:
    state = two(1, 1)
    image = image_of(storage(1), back(("one", "two")), topics={"t": [state] * 6})
    live, places = live_nodes(image.members("storage")), NewDirectories(image)
    given = [with_new_directories(state, state, live, places).replicas[1].log_dir_id for _ in range(6)]
    assert (given.count("one2"), given.count("two2")) == (3, 3)


def test_one_that_a_reassignment_is_adding_gets_another_one_too() -> None:
    state = replace(two(1, 1), adding=(2,))
    assert reconciled_state(state, storage(1), back()).replicas[1] == Replica(2, "new2")


def test_a_node_that_comes_back_empty_gets_new_directories_for_its_replicas() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await register(store, storage(1), storage(2))
        async with running_controller(store) as running:
            await running.elected()
            t = (await running.create(NewTopic("t", 4, 2))).topics[0].topic_id
            await vanish(store.peer(), 2)
            await running.image_when(lambda image: in_sync(image, t) == {(InSync(1, 1),)})
            await register(store, replace(back(("d",)), log_dirs=(), failed_dirs=1))
            await register(store, back(("x", "y")))
            image = await running.image_when(lambda image: not {"d2"} & places_of(image, t, 2))
            assert places_of(image, t, 2) == {"x2", "y2"}
            assert places_of(image, t, 1) == {"d1"}

    def in_sync(image: ClusterImage, t: bytes) -> set[tuple[InSync, ...]]:
        return {state.isr for state in image.partitions_of(t) if state is not None}

    def places_of(image: ClusterImage, t: bytes, node_id: int) -> set[str]:
        return {
            r.log_dir_id for state in image.partitions_of(t) if state is not None for r in state.replicas if r.node_id == node_id
        }

    run_virtually(scenario())
