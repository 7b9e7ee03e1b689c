"""Nodes that are to be empty: what is refused, what is placed elsewhere, and what one controller does until they are."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import ConfigOverrides, InSync, PartitionState, Replica
from libs.cluster.store import Delete, Put
from libs.rpc.contracts.controller import (
    AlterConfigs,
    AlterReassignments,
    ConfigChange,
    ConfigResource,
    CreateTopics,
    NewTopic,
    Reassignment,
)
from libs.wire.errors import ErrorCode
from services.controller.balancing import balancer
from services.controller.controller_meters import ControllerGauges
from services.controller.core.administration.alter_reassignments import alter_reassignments
from services.controller.core.balancing.balance_plan import Goal, Situation, Step, plan
from services.controller.core.balancing.balance_view import emptying, planned, under_way
from services.controller.core.balancing.node_absences import STEADY_S, Absences
from services.controller.core.balancing.replica_moves import (
    cancelled_moves,
    limit_copies,
    reassigning,
    retargeted_moves,
    step_changes,
)
from services.controller.core.model.replica_health import live_nodes
from services.controller.core.partitions.partition_reconciler import reconcile
from services.controller.core.partitions.partition_states import follows_the_table
from services.controller.core.placement.replica_placement import Node
from services.controller.core.reassignment.decommissioning import leaving
from services.controller.core.topics.alter_configs import SET, alter_configs
from services.controller.core.topics.replica_assignment import Limits
from services.controller.core.topics.topics import create_topics, default_replication_factor
from tests.cluster.conftest import run_virtually
from tests.controller.images import image_of, storage, topic_id
from tests.controller.running_controller import RunningController, register, running_controller, vanish
from tests.support.polling import until

LEAVES = {"decommission": "true"}
NODES = tuple(storage(n) for n in (1, 2, 3, 4))


class Dice:
    """Always the same number."""

    def randbytes(self, n: int, /) -> bytes:
        return b"\x11" * n

    def randrange(self, stop: int, /) -> int:
        return 0


def state_of(*nodes: int, isr: tuple[int, ...] | None = None, leader: int | None = None) -> PartitionState:
    members = tuple(InSync(n, 1) for n in (nodes if isr is None else isr))
    return PartitionState(tuple(Replica(n, f"d{n}") for n in nodes), leader or nodes[0], 1, 3, 3, members)


def cluster(*states: PartitionState, leaves: tuple[int, ...] = ()) -> ClusterImage:
    return image_of(*NODES, topics={"t": states}, overrides={("broker", str(n)): LEAVES for n in leaves})


def situation(image: ClusterImage, gone: tuple[int, ...] = ()) -> Situation:
    going = leaving(image)
    nodes = {n: Node(n) for n in image.members("storage") if n not in going and n not in gone}
    return Situation(image, nodes, going, frozenset(gone))


def ask(image: ClusterImage, *broker_ids: str, name: str = "decommission", value: str = "true") -> list[tuple[int, str | None]]:
    resources = tuple(ConfigResource(4, broker_id, (ConfigChange(name, SET, value),)) for broker_id in broker_ids)
    return [(result.result.error, result.result.message) for result in alter_configs(image, AlterConfigs(resources))]


# --- what is refused, and what goes elsewhere


def test_a_node_that_the_others_cannot_replace_is_not_decommissioned_and_words_say_why() -> None:
    three = state_of(1, 2, 3)
    assert ask(cluster(three), "1") == [(0, None)]
    assert ask(cluster(three, leaves=(2,)), "4")[0][0] == ErrorCode.INVALID_REQUEST, "it has nothing, but 2 needs it"
    assert ask(cluster(state_of(1, 3), leaves=(2,)), "4") == [(0, None)]
    ((error, message),) = ask(cluster(three, leaves=(2,)), "1")
    assert error == ErrorCode.INVALID_REQUEST
    assert message == (
        "Broker 1 cannot be decommissioned: t-0 has 3 replica(s), and only 2 broker(s) are alive that are not being "
        "decommissioned."
    )
    assert ask(cluster(three, leaves=(1, 2)), "1") == [(0, None)], "it is said once more"


def test_one_request_does_not_take_more_nodes_than_the_cluster_can_do_without() -> None:
    assert [error for error, _ in ask(cluster(state_of(1, 2, 3)), "1", "2")] == [0, ErrorCode.INVALID_REQUEST]


def test_decommissioning_is_of_one_node_and_balancing_of_all() -> None:
    assert ask(cluster(state_of(1)), "")[0][0] == ErrorCode.INVALID_REQUEST
    assert ask(cluster(state_of(1)), "1", name="self.balancing.mode", value="apply")[0][0] == ErrorCode.INVALID_REQUEST
    assert ask(cluster(state_of(1)), "", name="self.balancing.mode", value="apply") == [(0, None)]
    assert ask(cluster(state_of(1)), "", name="self.balancing.mode", value="sometimes")[0][0] == ErrorCode.INVALID_REQUEST


def test_new_topics_keep_clear_of_a_node_that_leaves() -> None:
    image = cluster(state_of(1), leaves=(1,))
    made = create_topics(image, CreateTopics((NewTopic("new", 6, 3),)), Dice(), Limits()).planned[0]
    assert {replica.node_id for state in made.partitions for replica in state.replicas} == {2, 3, 4}
    too_many = create_topics(image, CreateTopics((NewTopic("new", 6, 4),)), Dice(), Limits()).refused[0]
    assert too_many.error == ErrorCode.INVALID_REPLICATION_FACTOR
    assert too_many.message is not None
    assert "only 3 broker(s) are alive that are not being decommissioned" in too_many.message
    by_hand = NewTopic("new", -1, -1, assignments=((0, (1, 2)),))
    assert (
        create_topics(image, CreateTopics((by_hand,)), Dice(), Limits()).refused[0].error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )
    assert default_replication_factor(cluster(state_of(1), leaves=(1, 2))) == 2


def test_an_operator_does_not_give_it_replicas_but_may_leave_it_those_that_it_has() -> None:
    image = cluster(state_of(1, 2), leaves=(1,))
    live = live_nodes(image.members("storage"))

    def error(*target: int) -> int:
        request = AlterReassignments((Reassignment("t", 0, target),))
        return alter_reassignments(image, request, live, lambda _: True, lambda _: False).results[0].error

    assert error(2, 1) == error(3, 1) == error(3, 4) == 0
    other = cluster(state_of(2, 3), leaves=(1,))
    request = AlterReassignments((Reassignment("t", 0, (1, 2)),))
    refused = alter_reassignments(other, request, live, lambda _: True, lambda _: False).results[0]
    assert refused.error == ErrorCode.INVALID_REPLICA_ASSIGNMENT


# --- what is planned


def test_leaderships_leave_first_and_data_after() -> None:
    image = cluster(state_of(1, 2, 3), leaves=(1,))
    (step,) = plan(situation(image), most=10, even=False).steps
    assert step == Step((topic_id(1), 0), (1, 2, 3), (2, 3, 1), Goal.EMPTY, leads=True)
    (step,) = plan(situation(cluster(state_of(2, 3, 1), leaves=(1,))), most=10, even=False).steps
    assert step == Step((topic_id(1), 0), (2, 3, 1), (2, 3, 4), Goal.EMPTY)


def test_a_leadership_that_moves_is_shown_as_one_and_not_as_a_copy() -> None:
    image = cluster(state_of(4, 2, 3, leader=4), leaves=(4,))
    [key] = [(topic_id, 0) for topic_id in image.topics_by_id]
    leads = Step(key, (2, 3, 4), (2, 3, 4), Goal.EMPTY, leads=True)
    copies = Step(key, (2, 3, 4), (2, 3, 1), Goal.EMPTY)
    assert planned(image, [leads, copies]) == [
        {"partition": "t-0", "leader": 4, "to": 2, "replicas": [2, 3, 4], "copies": False, "why": Goal.EMPTY.value},
        {"partition": "t-0", "replicas": [2, 3, 4], "to": [2, 3, 1], "copies": True, "why": Goal.EMPTY.value},
    ]


def test_a_partition_that_is_out_of_sync_or_being_reassigned_is_left_alone() -> None:
    behind = state_of(1, 2, 3, isr=(1, 2))
    moving = replace(state_of(1, 2, 3), adding=(3,))
    damaged = replace(state_of(1, 2, 3), withdrawn=(InSync(2, 1),))
    unsure = replace(state_of(1, 2, 3), recovering=True)
    leaderless = replace(state_of(1, 2, 3), leader=-1)
    for state in (behind, moving, damaged, unsure, leaderless):
        assert plan(situation(cluster(state, leaves=(1,))), most=10).steps == []


def test_nothing_is_evened_out_while_what_is_to_be_emptied_waits() -> None:
    uneven = [state_of(1), state_of(1), state_of(1)]
    waiting = state_of(1, 2, 4, isr=(1, 4))
    assert plan(situation(cluster(waiting, *uneven, leaves=(4,))), most=10).steps == []
    assert len(plan(situation(cluster(*uneven, leaves=(4,))), most=10).steps) == 2


def test_a_replica_for_which_no_node_is_left_is_stuck_and_said_to_be() -> None:
    result = plan(situation(cluster(state_of(3, 4, 1), leaves=(1, 2))), most=10, even=False)
    assert (result.steps, result.stuck) == ([], [(topic_id(1), 0)])


def test_a_node_that_is_gone_is_replaced_together_with_a_decommissioned_one() -> None:
    image = cluster(state_of(2, 3, 1, isr=(2, 1)), leaves=(1,))
    assert plan(situation(image), most=10, even=False).steps == [], "it may come back"
    five = image_of(
        *(storage(n) for n in (1, 2, 4, 5)),
        topics={"t": [state_of(2, 3, 1, isr=(2, 1))]},
        overrides={("broker", "1"): LEAVES},
        gone=(3,),
    )
    (step,) = plan(situation(five, gone=(3,)), most=10, even=False).steps
    assert (step.before, set(step.after)) == ((2, 3, 1), {2, 4, 5})


def test_a_node_that_is_gone_for_good_is_replaced_only_where_balancing_says_so() -> None:
    image = image_of(*(storage(n) for n in (1, 2, 4)), topics={"t": [state_of(1, 2, 3, isr=(1, 2))]}, gone=(3,))
    assert plan(situation(image, gone=(3,)), most=10, even=False).steps == []
    (step,) = plan(situation(image, gone=(3,)), most=10).steps
    assert (step.after, step.goal) == ((1, 2, 4), Goal.EMPTY)


# --- what becomes of a plan


def changed(image: ClusterImage, *steps: Step) -> list[PartitionState]:
    result = step_changes(image, steps, live_nodes(image.members("storage")), lambda _: True)
    for id_, index, after in result:
        before = image.partition(id_, index)
        assert before is not None
        assert follows_the_table(before, after)
    return [state for _, _, state in result]


def test_a_leadership_moves_at_once_and_with_it_its_preference() -> None:
    step = Step((topic_id(1), 0), (1, 2, 3), (2, 3, 1), Goal.EMPTY, leads=True)
    (after,) = changed(cluster(state_of(1, 2, 3)), step)
    assert [replica.node_id for replica in after.replicas] == [2, 3, 1]
    assert (after.leader, after.leader_epoch, after.partition_epoch, after.paced) == (2, 4, 4, False)


def test_a_copy_is_paced_until_it_is_done_and_an_operators_is_not() -> None:
    image = cluster(state_of(2, 3, 1))
    (after,) = changed(image, Step((topic_id(1), 0), (2, 3, 1), (2, 3, 4), Goal.EMPTY))
    assert (after.paced, after.adding, after.removing, after.leader_epoch) == (True, (4,), (1,), 3)
    request = AlterReassignments((Reassignment("t", 0, (2, 1, 4)),))
    moved = cluster(after)
    ((_, _, other),) = alter_reassignments(
        moved, request, live_nodes(moved.members("storage")), lambda _: True, lambda _: False
    ).changed
    assert (other.paced, other.adding, other.removing) == (False, (4,), (3,))


def test_a_move_of_ours_to_a_node_that_is_gone_is_taken_back_and_an_operators_is_not() -> None:
    ours = replace(state_of(2, 3, 4, 1, isr=(2, 3, 1)), adding=(4,), removing=(1,), paced=True)
    theirs = replace(ours, paced=False)
    image = cluster(ours, theirs, ours)
    live = live_nodes(image.members("storage"))
    result = cancelled_moves(image, frozenset({4}), live, lambda _: True)
    assert [(index, [r.node_id for r in s.replicas], s.paced) for _, index, s in result] == [
        (0, [2, 3, 1], False),
        (2, [2, 3, 1], False),
    ]
    assert cancelled_moves(image, frozenset({1}), live, lambda _: True) == []


def stays_gone(*isr: int, nodes: tuple[int, ...] = (1, 3, 4, 5), leader: int | None = None) -> ClusterImage:
    """(1, 2, 4) is on its way to (1, 2, 3), and node 2 is gone."""
    state = replace(state_of(1, 2, 3, 4, isr=isr, leader=leader), adding=(3,), removing=(4,), paced=True)
    return image_of(*(storage(n) for n in nodes), topics={"t": [state]}, overrides={("broker", "4"): LEAVES}, gone=(2,))


def aimed_anew(image: ClusterImage, *fit: int, gone: tuple[int, ...] = (2,)) -> list[PartitionState]:
    result = retargeted_moves(image, frozenset(gone), frozenset(fit), live_nodes(image.members("storage")), lambda _: True)
    for id_, index, after in result:
        before = image.partition(id_, index)
        assert before is not None
        assert follows_the_table(before, after)
    return [state for _, _, state in result]


def moves_to(state: PartitionState) -> tuple[list[int], tuple[int, ...], tuple[int, ...], bool]:
    return [replica.node_id for replica in state.replicas], state.adding, state.removing, state.paced


def test_a_move_of_ours_that_keeps_a_replica_on_a_node_that_is_gone_keeps_one_that_was_to_go_instead() -> None:
    """It waited for ever, and held one of the places that moves have: once all were held, nothing moved any more."""
    (after,) = aimed_anew(stays_gone(1, 4), 1, 3, 5)
    assert moves_to(after) == ([1, 4, 3, 2], (3,), (2,), True), "what was copied to 3 stays"
    (after,) = aimed_anew(stays_gone(1, 4, 3), 1, 3, 5)
    assert moves_to(after) == ([1, 4, 3], (), (), False)
    assert {member.node_id for member in after.isr} == {1, 4, 3}


def test_where_none_that_was_to_go_is_in_sync_another_node_takes_the_place_of_one_that_is_gone() -> None:
    image = stays_gone(1, 3, nodes=(1, 3, 5))
    (after,) = aimed_anew(image, 1, 3, 5, gone=(2, 4))
    assert moves_to(after) == ([1, 5, 3, 2, 4], (3, 5), (2, 4), True)
    assert aimed_anew(image, 1, 3, gone=(2, 4)) == [], "what is in sync is not taken away"
    (after,) = aimed_anew(stays_gone(1, nodes=(1, 3)), 1, 3, gone=(2, 4))
    assert moves_to(after) == ([1, 2, 4], (), (), False), "taken back: nobody is left"


def test_the_last_in_sync_is_waited_for_and_its_move_keeps_no_other_from_beginning() -> None:
    image = stays_gone(2, leader=-1)
    assert aimed_anew(image, 1, 3, 5) == []
    assert reassigning(image) == 0
    assert reassigning(stays_gone(1, 4)) == 1


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1 << 32), st.integers(6, 9), st.integers(1, 3))
def test_whichever_node_dies_for_good_while_replicas_move_the_moves_come_to_rest(seed: int, size: int, factor: int) -> None:
    dice, everybody = Random(seed), range(1, size + 1)
    states = [state_of(*dice.sample(everybody, factor)) for _ in range(12)]
    leaves, dead = dice.choice(everybody), frozenset[int]()
    for round_ in range(200):
        if round_ < 8 and len(dead) < 2 and dice.random() < 0.3:
            dead |= {dice.choice(everybody)}
        alive = [storage(n) for n in everybody if n not in dead]
        image = image_of(*alive, topics={"t": states}, overrides={("broker", str(leaves)): LEAVES}, gone=tuple(dead))
        live = live_nodes(image.members("storage"))
        fit = {n: Node(n, log_dirs=(f"d{n}",)) for n in live if n != leaves}
        planned = plan(Situation(image, fit, frozenset({leaves}), dead), most=100).steps
        back = cancelled_moves(image, dead | {leaves}, live, lambda _: True)
        taken = {index for _, index, _ in back}
        aimed = retargeted_moves(image, dead, fit.keys(), live, lambda _: True)
        begun = step_changes(image, limit_copies(planned, 3 - reassigning(image)), live, lambda _: True)
        written = [*back, *(one for one in aimed if one[1] not in taken), *begun]
        for id_, index, after in written:
            before = image.partition(id_, index)
            assert before is not None
            assert follows_the_table(before, after)
            states[index] = after
        followed = [reconcile(state, live) for state in states]
        joined = [reconcile(caught_up(state, live, dice), live) for state in followed]
        if round_ >= 8 and not written and joined == states and all(in_sync(state, live) for state in states):
            break
        states = joined
    else:
        raise AssertionError("it does not end")
    assert not any(state.paced for state in states if state.leader >= 0), states
    assert not any(leaves in [r.node_id for r in state.replicas] for state in states if state.leader >= 0)


def in_sync(state: PartitionState, live: Mapping[int, Any]) -> bool:
    isr = {member.node_id for member in state.isr}
    return state.leader < 0 or all(r.node_id in isr for r in state.replicas if r.node_id in live)


def caught_up(state: PartitionState, live: Mapping[int, Any], dice: Random) -> PartitionState:
    """Some of those that live and were behind."""
    isr = {member.node_id for member in state.isr}
    joins = [r.node_id for r in state.replicas if r.node_id in live and r.node_id not in isr and dice.random() < 0.5]
    if state.leader < 0 or not joins:
        return state
    return replace(state, isr=(*state.isr, *(InSync(n, 1) for n in joins)), partition_epoch=state.partition_epoch + 1)


def test_a_move_that_needs_a_node_that_is_away_is_said_to_wait_for_it() -> None:
    image = stays_gone(1, 4)
    state = image.partition(topic_id(1), 0)
    assert state is not None
    answer: Any = emptying(image, 4, [])
    assert (answer["state"], answer["moving"]) == ("stuck: some moves wait for a node that is away", 0)
    assert answer["waiting"] == {"partitions": 1, "some": ["t-0"]}
    assert under_way(image, {(topic_id(1), 0): state})[0]["waits_for"] == [2]
    answer = emptying(stays_gone(1, 4, nodes=(1, 2, 3, 4)), 4, [])
    assert (answer["state"], answer["moving"]) == ("moving", 1)


# --- absent nodes


def test_a_node_that_is_away_when_the_term_begins_counts_as_away_from_then_on() -> None:
    absences = Absences()
    absences.observe([1, 2, 3], {1, 2}, 100.0)
    assert absences.gone(699.0, 600.0) == frozenset()
    assert not absences.calm(699.0, 600.0, {1, 2, 3})
    assert absences.calm(699.0, 600.0, {1, 2}), "who holds nothing is not missed"
    assert absences.gone(700.0, 600.0) == {3}
    assert absences.calm(700.0, 600.0, {1, 2, 3})


def test_a_node_that_comes_back_starts_anew_and_is_believed_to_stay_after_a_while() -> None:
    absences = Absences()
    absences.observe([1, 2], {1}, 0.0)
    absences.observe([1, 2], {1, 2}, 500.0)
    assert not absences.calm(500.0 + STEADY_S - 1, 600.0, {1, 2})
    assert absences.calm(500.0 + STEADY_S, 600.0, {1, 2})
    absences.observe([1, 2], {1}, 900.0)
    absences.observe([1, 2], {1}, 1400.0)
    assert absences.gone(1499.0, 600.0) == frozenset()
    assert absences.gone(1500.0, 600.0) == {2}


# --- a controller at work


def story(scenario: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        run_virtually(scenario())

    run.__name__, run.__doc__ = scenario.__name__, scenario.__doc__
    return run


@asynccontextmanager
async def copying(store: MemoryStore, running: RunningController, after_s: float = 5.0) -> AsyncIterator[list[int]]:
    """Replicas that are added catch up a while later. Yields how many were being copied, each time that it looked."""
    seen: list[int] = []

    async def work() -> None:
        while True:
            await asyncio.sleep(after_s)
            image = running.image
            adding = [(t, i, s) for t in image.topics_by_id for i, s in enumerate(image.partitions_of(t)) if s and s.adding]
            seen.append(len(adding))
            alive = image.members("storage")
            for id_, index, state in adding:
                isr = tuple(InSync(r.node_id, alive[r.node_id].incarnation) for r in state.replicas if r.node_id in alive)
                done = replace(state, isr=isr, partition_epoch=state.partition_epoch + 1)
                await store.txn([], [Put(keys.partition(id_, index), encode(done))])

    task = asyncio.ensure_future(work())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def configure(store: MemoryStore, broker: str, **values: str) -> None:
    result = {name.replace("_", "."): value for name, value in values.items()}
    await store.txn([], [Put(keys.config("broker", broker), encode(ConfigOverrides(result)))])


def held(image: ClusterImage) -> dict[int, int]:
    counts = Counter(dict.fromkeys(sorted(image.nodes), 0))
    for id_ in image.topics_by_id:
        for state in image.partitions_of(id_):
            assert state is not None
            for replica in state.replicas:
                counts[replica.node_id] += 1
    return counts


def metric(running: RunningController, name: str) -> float:
    (family,) = [each for each in ControllerGauges(running.controller).collect() if each.name == name]
    return float(family.samples[0].value)


@asynccontextmanager
async def nodes_with_a_topic(*registered: int, factor: int = 3) -> AsyncIterator[tuple[MemoryStore, RunningController]]:
    """A controller, and a topic of 8 partitions on those that are registered."""
    store = MemoryStore()
    await register(store, *(storage(n) for n in registered))
    async with running_controller(store) as running:
        await running.elected()
        assert (await running.create(NewTopic("t", 8, factor))).topics[0].error == 0
        yield store, running


@story
async def test_a_decommissioned_node_is_emptied_in_any_mode_a_few_partitions_at_a_time() -> None:
    async with nodes_with_a_topic(1, 2, 3, 4) as (store, running), copying(store, running) as copied:
        await configure(store, "", self_balancing_moves_max="2")
        await configure(store, "4", decommission="true")
        await running.image_when(
            lambda image: all(s and s.leader != 4 for t in image.topics_by_id for s in image.partitions_of(t))
        )
        assert held(running.image)[4] > 0, "leaderships go first"
        assert metric(running, "penstock_decommissioning_replicas") == held(running.image)[4]
        await until(lambda: held(running.image) == {1: 8, 2: 8, 3: 8, 4: 0}, 200.0)
        assert max(copied) == 2
        assert metric(running, "penstock_decommissioning_replicas") == 0
        answer: Any = running.controller.balancing.debug(running.image)
        assert answer["decommissioning"]["4"]["state"] == "empty"
        await configure(store, "4")
        await until(lambda: leaving(running.image) == frozenset())
        await asyncio.sleep(100.0)
        assert held(running.image)[4] == 0, "what went does not come back by itself while self-balancing is off"


@story
async def test_a_node_that_joins_is_suggested_for_and_nothing_moves_until_it_is_applied() -> None:
    async with nodes_with_a_topic(1, 2, 3) as (store, running), copying(store, running):
        await configure(store, "", self_balancing_mode="suggest")
        await register(store, storage(4))
        await until(lambda: bool(running.controller.balancing.plan.steps), STEADY_S + 5)
        await asyncio.sleep(60.0)
        assert held(running.image) == {1: 8, 2: 8, 3: 8, 4: 0}
        assert metric(running, "penstock_balancing_planned_steps") == 6
        assert metric(running, "penstock_balancing_moving_partitions") == 0
        await configure(store, "", self_balancing_mode="apply")
        await until(lambda: held(running.image) == {1: 6, 2: 6, 3: 6, 4: 6}, 100.0)
        await until(lambda: not running.controller.balancing.plan.steps)


@story
async def test_evening_out_begins_late_and_ends_only_where_nodes_are_even() -> None:
    async with nodes_with_a_topic(1, 2, 3) as (store, running), copying(store, running):
        await configure(store, "", self_balancing_mode="apply", self_balancing_imbalance_percentage="150")
        await register(store, storage(4))
        await asyncio.sleep(STEADY_S + 60.0)
        assert held(running.image) == {1: 8, 2: 8, 3: 8, 4: 0}, "8 apart, and 9 would be too much"
        settings = {"self_balancing_imbalance_percentage": "100", "self_balancing_moves_max": "1"}
        await configure(store, "", self_balancing_mode="apply", **settings)
        await until(lambda: held(running.image) == {1: 6, 2: 6, 3: 6, 4: 6}, 200.0)


@story
async def test_a_node_that_is_away_for_a_while_costs_nothing_and_one_that_stays_away_is_replaced() -> None:
    async with nodes_with_a_topic(1, 2, 3, 4) as (store, running), copying(store, running) as copied:
        await configure(store, "", self_balancing_mode="apply")
        await asyncio.sleep(5.0)
        before = held(running.image)
        await vanish(store, 4)
        await asyncio.sleep(590.0)
        await register(store, storage(4, 2))
        await asyncio.sleep(5.0)
        assert held(running.image) == before
        assert sum(copied) == 0
        await vanish(store, 4)
        await asyncio.sleep(590.0)
        assert held(running.image) == before
        await until(lambda: held(running.image) == {1: 8, 2: 8, 3: 8, 4: 0}, 100.0)


@story
async def test_a_node_that_was_unregistered_is_not_waited_for() -> None:
    async with nodes_with_a_topic(1, 2, 3, 4) as (store, running), copying(store, running):
        await configure(store, "", self_balancing_mode="apply")
        await vanish(store, 4)
        await until(lambda: 4 not in running.image.members("storage"))
        await store.txn([], [Delete(keys.node(4))])
        await until(lambda: held(running.image) == {1: 8, 2: 8, 3: 8}, 100.0)


@pytest.mark.parametrize("mode", ["off", "suggest"])
def test_without_the_config_nothing_moves(mode: str) -> None:
    async def scenario() -> None:
        async with nodes_with_a_topic(1, 2, 3) as (store, running), copying(store, running) as copied:
            await configure(store, "", self_balancing_mode=mode)
            await register(store, storage(4))
            await vanish(store, 3)
            await asyncio.sleep(2000.0)
            assert sum(copied) == 0

    run_virtually(scenario())


@pytest.mark.parametrize("mode", ["off", "suggest"])
def test_all_partitions_are_scanned_when_something_changed_only(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scans: list[int] = []

    def counted(scan: Callable[[ClusterImage], Any]) -> Callable[[ClusterImage], Any]:
        def scanned(image: ClusterImage) -> Any:
            scans.append(image.revision)
            return scan(image)

        return scanned

    async def scenario() -> None:
        async with nodes_with_a_topic(1, 2, 3) as (store, _):
            await configure(store, "", self_balancing_mode=mode)
            await asyncio.sleep(100.0)
            for name in ("moving", "holders"):
                monkeypatch.setattr(balancer, name, counted(getattr(balancer, name)))
            await asyncio.sleep(100.0)
            assert scans == []
            await configure(store, "", self_balancing_mode="apply")
            await until(lambda: bool(scans))

    run_virtually(scenario())


@story
async def test_a_successor_goes_on_where_the_deposed_controller_was() -> None:
    async with nodes_with_a_topic(1, 2, 3, 4) as (store, first), running_controller(store.peer(), 2) as second:
        await configure(store, "4", decommission="true")
        await until(lambda: any(s and s.paced for t in first.image.topics_by_id for s in first.image.partitions_of(t)))
        assert isinstance(first.store, MemoryStore)
        first.controller.active_term().leadership.lose("the test says so")
        await until(lambda: first.controller.elected or second.controller.elected)
        async with copying(store, second):
            await until(lambda: held(second.image) == {1: 8, 2: 8, 3: 8, 4: 0}, 200.0)


@story
async def test_a_node_that_comes_and_goes_is_given_nothing_until_it_stays() -> None:
    async with nodes_with_a_topic(1, 2, 3) as (store, running), copying(store, running) as copied:
        await configure(store, "", self_balancing_mode="apply")
        await asyncio.sleep(5.0)
        for incarnation in (1, 2, 3):
            await register(store, storage(4, incarnation))
            await asyncio.sleep(STEADY_S - 5.0)
            await vanish(store, 4)
            await asyncio.sleep(5.0)
        assert sum(copied) == 0
        await register(store, storage(4, 4))
        await until(lambda: held(running.image) == {1: 6, 2: 6, 3: 6, 4: 6}, STEADY_S + 60.0)


@story
async def test_a_node_that_is_about_to_stop_is_given_nothing() -> None:
    async with nodes_with_a_topic(1, 2, 3, 4, factor=1) as (store, running), copying(store, running):
        await register(store, replace(storage(1), stopping=True))
        await configure(store, "4", decommission="true")
        await until(lambda: held(running.image) == {1: 2, 2: 3, 3: 3, 4: 0}, 60.0)


@story
async def test_a_move_to_a_node_that_is_to_be_empty_itself_is_not_waited_for() -> None:
    async with nodes_with_a_topic(1, 2, 3, 4) as (store, running):
        await register(store, storage(5))
        await until(lambda: 5 in running.image.members("storage"))

        def adding() -> set[int]:
            states = [state for id_ in running.image.topics_by_id for state in running.image.partitions_of(id_)]
            return {node_id for state in states if state is not None for node_id in state.adding}

        await configure(store, "4", decommission="true")
        await until(lambda: 5 in adding())
        await configure(store, "5", decommission="true")
        await until(lambda: adding() == {1, 2, 3}, 30.0)


@story
async def test_moves_under_way_when_a_node_that_stays_dies_for_good_end_all_the_same() -> None:
    async with nodes_with_a_topic(1, 2, 3, 4) as (store, running):
        for node_id in (5, 6):
            await register(store, storage(node_id))
        await configure(store, "", self_balancing_moves_max="2")
        await configure(store, "4", decommission="true")
        await until(lambda: metric(running, "penstock_balancing_moving_partitions") == 2)
        moving = [s for t in running.image.topics_by_id for s in running.image.partitions_of(t) if s and s.paced]
        dies = min({r.node_id for s in moving for r in s.replicas if r.node_id not in (*s.adding, *s.removing)})
        await vanish(store, dies)
        await until(lambda: dies not in running.image.members("storage"))
        async with copying(store, running):
            await until(lambda: held(running.image)[4] == 0, 1200.0)
            states = [s for t in running.image.topics_by_id for s in running.image.partitions_of(t) if s is not None]
            assert not any(s.paced or s.adding or s.removing for s in states)
