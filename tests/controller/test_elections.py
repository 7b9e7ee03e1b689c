"""Leaders that membership alone does not decide: after a loss, by request, and back to preferred replicas."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import ConfigOverrides, InSync, Member, PartitionState, Replica, Topic
from libs.cluster.store import Put
from libs.rpc.contracts.controller import PREFERRED, UNCLEAN, AlterReassignments, ElectLeaders, Reassignment
from libs.wire.errors import ErrorCode
from services.controller.core.administration.elect_leaders import (
    LeaderDecision,
    elect_leaders,
    overdue_preferred,
    unclean_queries,
)
from services.controller.core.elections.leader_election import (
    ReplicaLogEnd,
    elect_by_logs,
    log_end_query,
    most_complete,
    preferred,
    reassigned,
)
from services.controller.core.model.refusal import Refused
from services.controller.core.model.replica_health import live_nodes
from services.controller.core.partitions.partition_reconciler import reconcile
from services.controller.elections.log_end_survey import Key, LogEndsByPartition
from tests.cluster.conftest import run_virtually
from tests.controller.images import image_of, storage, topic_id
from tests.controller.running_controller import RunningController, register, running_controller, vanish
from tests.support.polling import until


def state_of(
    leader: int = 1, isr: tuple[int, ...] = (1, 2, 3), replicas: tuple[int, ...] = (1, 2, 3), epoch: int = 4
) -> PartitionState:
    return PartitionState(
        tuple(Replica(n, f"d{n}") for n in replicas),
        leader,
        int(leader >= 0),
        epoch,
        epoch,
        tuple(InSync(n, 1) for n in isr),
    )


def lost(node_id: int) -> Member:
    """Restarted after a power cut."""
    return replace(storage(node_id, 2), survived_from=2)


def kept(node_id: int) -> Member:
    return replace(storage(node_id, 2), survived_from=1)


def went_back(node_id: int) -> Member:
    """Restarted on a volume that was restored from an older snapshot."""
    return replace(kept(node_id), went_back=(f"d{node_id}",))


def live(*members: Member) -> dict[int, Any]:
    return dict(live_nodes({member.node_id: member for member in members}))


# --- log-end queries and their winners


def test_while_one_of_the_last_isr_is_away_it_is_waited_for() -> None:
    state = state_of(-1)
    assert log_end_query(state, live(lost(1), lost(2)), synced=False, unclean=False) is None
    query = log_end_query(state, live(lost(1), lost(2), lost(3)), synced=False, unclean=False)
    assert query is not None
    assert query.candidates == (InSync(1, 2), InSync(2, 2), InSync(3, 2))


@pytest.mark.parametrize("synced", [True, False])
def test_a_node_whose_volume_went_back_leads_only_if_no_replica_has_more(synced: bool) -> None:
    """It came back as one that had everything which was synced, and led: others cut what had been acknowledged."""
    state = replace(state_of(1, isr=(1,)), lax=not synced)
    doubtful = reconcile(state, live(went_back(1), storage(2)), synced=synced)
    assert (doubtful.leader, doubtful.isr) == (-1, state.isr)
    assert log_end_query(doubtful, live(went_back(1), storage(2)), synced=synced, unclean=False) is None
    query = log_end_query(doubtful, live(went_back(1), storage(2), storage(3)), synced=synced, unclean=False)
    assert query is not None
    ends = {InSync(1, 2): ReplicaLogEnd(4, 5), InSync(2, 1): ReplicaLogEnd(4, 20)}
    assert elect_by_logs(doubtful, query, ends) is None
    elected = elect_by_logs(doubtful, query, ends | {InSync(3, 1): ReplicaLogEnd(3, 30)})
    assert elected is not None
    assert (elected.leader, elected.isr, elected.recovering) == (2, (InSync(2, 1),), True)


def test_a_volume_that_went_back_matters_to_nobody_while_another_member_has_everything() -> None:
    led = reconcile(state_of(-1, isr=(1, 2)), live(went_back(1), kept(2)))
    assert (led.leader, led.isr) == (2, (InSync(2, 2),))
    waiting = reconcile(state_of(-1, isr=(1, 2)), live(went_back(1)))
    assert (waiting.leader, log_end_query(waiting, live(went_back(1), storage(3)), synced=True, unclean=False)) == (-1, None)


def test_another_directory_of_the_node_that_went_back_does_not_matter() -> None:
    other = replace(kept(1), went_back=("other",), log_dirs=("d1", "other"))
    assert reconcile(state_of(-1, isr=(1,)), live(other)).leader == 1


def test_a_lost_directory_or_a_damaged_log_is_an_operators_to_decide_upon() -> None:
    state = state_of(-1, isr=(1, 2))
    displaced = replace(lost(2), log_dirs=("other",))
    assert log_end_query(state, live(lost(1), displaced, lost(3)), synced=False, unclean=False) is None
    damaged = replace(state, withdrawn=(InSync(2, 2),))
    assert log_end_query(damaged, live(lost(1), lost(2), lost(3)), synced=False, unclean=False) is None


def test_nobody_is_asked_while_there_is_a_leader() -> None:
    assert log_end_query(state_of(1), live(storage(1)), synced=False, unclean=True) is None


def test_unclean_election_asks_whoever_lives_with_the_directory() -> None:
    members = live(storage(2), replace(storage(3), log_dirs=("other",)), storage(4))
    query = log_end_query(state_of(-1, isr=(1,)), members, synced=True, unclean=True)
    assert query is not None
    assert query.candidates == (InSync(2, 1),)
    assert log_end_query(state_of(-1, isr=(1,)), members, synced=True, unclean=False) is None


def test_the_log_that_reaches_furthest_wins_and_epochs_count_before_offsets() -> None:
    state = state_of(-1)
    one, two, three = InSync(1, 2), InSync(2, 2), InSync(3, 2)
    assert most_complete(state, {one: ReplicaLogEnd(3, 100), two: ReplicaLogEnd(4, 50), three: ReplicaLogEnd(4, 40)}) == two
    assert most_complete(state, {three: ReplicaLogEnd(4, 50), two: ReplicaLogEnd(4, 50)}) == two
    assert most_complete(replace(state, removing=(2,)), {three: ReplicaLogEnd(4, 50), two: ReplicaLogEnd(4, 50)}) == three
    assert most_complete(state, {}) is None


def test_the_last_resort_waits_for_all_answers_and_then_leads_alone() -> None:
    state = state_of(-1)
    query = log_end_query(state, live(lost(1), lost(2), lost(3)), synced=False, unclean=False)
    assert query is not None
    answers = {InSync(1, 2): ReplicaLogEnd(4, 10), InSync(2, 2): ReplicaLogEnd(4, 12)}
    assert elect_by_logs(state, query, answers) is None
    elected = elect_by_logs(state, query, answers | {InSync(3, 2): ReplicaLogEnd(3, 99)})
    assert elected is not None
    assert (elected.leader, elected.leader_incarnation, elected.isr) == (2, 2, (InSync(2, 2),))
    assert elected.recovering
    assert (elected.leader_epoch, elected.partition_epoch) == (state.leader_epoch + 1, state.partition_epoch + 1)


def test_a_reassigned_partition_is_led_by_a_replica_that_stays() -> None:
    members = live(storage(1), storage(2), storage(3))
    state = replace(state_of(), removing=(1, 2))
    assert reassigned(state, members) == InSync(3, 1)
    assert preferred(state, members) == InSync(3, 1)
    assert reassigned(replace(state, isr=(InSync(1, 1),)), members) is None


# --- by request


def elect(
    image: ClusterImage,
    kind: int,
    *partitions: tuple[str, int],
    log_ends: LogEndsByPartition | None = None,
    everywhere: bool = False,
) -> LeaderDecision:
    request = ElectLeaders(kind, None if everywhere else partitions)
    return elect_leaders(image, request, live_nodes(image.members("storage")), log_ends or {})


def test_the_preferred_leader_is_elected_on_request() -> None:
    image = image_of(storage(1), storage(2), topics={"t": [state_of(2, isr=(2, 1))]})
    decision = elect(image, PREFERRED, ("t", 0))
    assert [(r.topic, r.partition, r.error) for r in decision.results] == [("t", 0, 0)]
    ((_, _, state),) = decision.changed
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 5, 5)
    assert state.isr == (InSync(2, 1), InSync(1, 1))


def test_a_partition_that_is_named_twice_is_elected_once_and_answered_twice() -> None:
    image = image_of(storage(1), storage(2), topics={"t": [state_of(2, isr=(2, 1))]})
    decision = elect(image, PREFERRED, ("t", 0), ("x", 0), ("t", 0))
    assert [r.error for r in decision.results] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert len(decision.changed) == 1


@pytest.mark.parametrize(
    ("kind", "partition", "error"),
    [
        (PREFERRED, ("nowhere", 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (PREFERRED, ("t", 9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (PREFERRED, ("t", -1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (PREFERRED, ("t", 0), ErrorCode.ELECTION_NOT_NEEDED),
        (PREFERRED, ("t", 1), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (PREFERRED, ("t", 2), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (UNCLEAN, ("t", 0), ErrorCode.ELECTION_NOT_NEEDED),
        (UNCLEAN, ("t", 2), ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        (UNCLEAN, ("nowhere", 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_an_impossible_election_is_answered_with_kafkas_code(kind: int, partition: tuple[str, int], error: ErrorCode) -> None:
    states = [state_of(1), state_of(2, isr=(2,)), state_of(-1, isr=(1,), replicas=(3, 1))]
    image = image_of(storage(1, 2), storage(2), topics={"t": [replace(states[0], leader_incarnation=1), *states[1:]]})
    decision = elect(image, kind, partition)
    assert decision.changed == []
    assert [(r.topic, r.partition, r.error) for r in decision.results] == [(*partition, error)]
    assert decision.results[0].message


def test_without_a_list_those_that_need_no_election_are_left_out() -> None:
    image = image_of(storage(1), storage(2), topics={"t": [state_of(1), state_of(2), state_of(2, isr=(2,))]})
    decision = elect(image, PREFERRED, everywhere=True)
    assert [(r.partition, r.error) for r in decision.results] == [(1, 0), (2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]


def test_an_unknown_kind_of_election_is_refused() -> None:
    with pytest.raises(Refused):
        elect(image_of(storage(1)), 7, ("t", 0))


def test_an_operator_may_elect_whoever_is_left() -> None:
    image = image_of(storage(2), storage(3), topics={"t": [state_of(-1, isr=(1,))]})
    request = ElectLeaders(UNCLEAN, (("t", 0),))
    (query,) = unclean_queries(image, request, live_nodes(image.members("storage"))).values()
    assert query.candidates == (InSync(2, 1), InSync(3, 1))
    assert unclean_queries(image, replace(request, election_type=PREFERRED), {}) == {}
    log_ends = {(topic_id(1), 0): {InSync(2, 1): ReplicaLogEnd(4, 5), InSync(3, 1): ReplicaLogEnd(4, 9)}}
    ((_, _, state),) = elect(image, UNCLEAN, ("t", 0), log_ends=log_ends).changed
    assert (state.leader, state.isr, state.recovering) == (3, (InSync(3, 1),), True)


# --- back to preferred replicas


def test_leadership_returns_to_a_node_that_misses_more_than_its_share() -> None:
    mine = [state_of(1, replicas=(1, 2)) for _ in range(8)]
    away = [state_of(2, isr=(1, 2), replicas=(1, 2)) for _ in range(2)]
    image = image_of(storage(1), storage(2), topics={"t": [*mine, *away]})
    nodes = live_nodes(image.members("storage"))
    assert overdue_preferred(image, nodes, 20) == []
    moved = overdue_preferred(image, nodes, 19)
    assert [(index, state.leader, state.leader_epoch) for _, index, state in moved] == [(8, 1, 5), (9, 1, 5)]


def test_leadership_does_not_return_to_a_node_that_is_not_in_sync_or_is_stopping() -> None:
    behind = [state_of(2, isr=(2,), replicas=(1, 2))]
    image = image_of(storage(1), storage(2), topics={"t": behind})
    assert overdue_preferred(image, live_nodes(image.members("storage")), 0) == []
    stopping = image_of(replace(storage(1), stopping=True), storage(2), topics={"t": [state_of(2, isr=(2, 1))]})
    assert overdue_preferred(stopping, live_nodes(stopping.members("storage")), 0) == []


# --- a whole controller


def story(scenario: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        run_virtually(scenario())

    run.__name__, run.__doc__ = scenario.__name__, scenario.__doc__
    return run


async def given(store: MemoryStore, state: PartitionState, **configs: str) -> None:
    puts = [
        Put(keys.partition(topic_id(1), 0), encode(state)),
        Put(keys.topic("t"), encode(Topic("t", topic_id(1).hex(), 1))),
        Put(
            keys.config("topic", "t"), encode(ConfigOverrides({name.replace("_", "."): value for name, value in configs.items()}))
        ),
    ]
    await store.txn([], puts)


def found(running: RunningController) -> PartitionState:
    state = running.image.partition(topic_id(1), 0)
    assert state is not None
    return state


class Logs:
    """The answers of nodes to a survey. `ends` may change while it runs."""

    def __init__(self, **ends: int) -> None:
        self.ends = {int(name.removeprefix("node")): end for name, end in ends.items()}
        self.asked = 0

    async def __call__(self, image: ClusterImage, candidates: Mapping[Key, Sequence[InSync]]) -> LogEndsByPartition:
        self.asked += 1
        await asyncio.sleep(0.01)
        return {
            key: {c: ReplicaLogEnd(4, self.ends[c.node_id]) for c in sent if c.node_id in self.ends}
            for key, sent in candidates.items()
        }


@story
async def test_after_a_power_cut_of_all_the_longest_log_of_a_replicated_topic_leads_once_all_are_back() -> None:
    store, logs = MemoryStore(), Logs(node1=10, node2=12)
    await given(store, state_of(1), durability="replicated")
    async with running_controller(store, survey=logs) as running:
        await until(lambda: found(running).leader == -1)
        await register(store, lost(1), lost(2))
        await until(lambda: len(running.image.members("storage")) == 2)
        await asyncio.sleep(5)
        assert (found(running).leader, len(found(running).isr), logs.asked) == (-1, 3, 0)
        await register(store, lost(3))
        await until(lambda: logs.asked > 2)
        assert found(running).leader == -1  # node 3 has not opened its log yet
        logs.ends[3] = 11
        await until(lambda: found(running).leader == 2)
        assert (found(running).isr, found(running).recovering) == ((InSync(2, 2),), True)
        assert running.controller.unclean_elections == 1


@story
async def test_a_replica_that_lost_nothing_leads_at_once() -> None:
    store, logs = MemoryStore(), Logs()
    await given(store, state_of(1), durability="replicated")
    async with running_controller(store, survey=logs) as running:
        await until(lambda: found(running).leader == -1)
        await register(store, lost(1), kept(2))
        await until(lambda: found(running).leader == 2)
        assert (found(running).recovering, logs.asked) == (False, 0)


@story
async def test_unclean_election_only_where_it_is_configured() -> None:
    store, logs = MemoryStore(), Logs(node2=5, node3=9)
    await given(store, state_of(1, isr=(1,)))
    await register(store, storage(1), storage(2), storage(3))
    async with running_controller(store, survey=logs) as running:
        await running.elected()
        await vanish(store, 1)
        await until(lambda: found(running).leader == -1)
        await asyncio.sleep(5)
        assert (found(running).leader, logs.asked) == (-1, 0)
        await store.txn([], [Put(keys.config("topic", "t"), encode(ConfigOverrides({"unclean.leader.election.enable": "true"})))])
        await until(lambda: found(running).leader == 3)
        assert (found(running).isr, found(running).recovering) == ((InSync(3, 1),), True)
        assert running.controller.unclean_elections == 1


@story
async def test_log_ends_of_a_node_that_died_meanwhile_elect_nobody() -> None:
    store, logs = MemoryStore(), Logs(node2=9)
    await given(store, state_of(-1, isr=(1,)))
    await register(store, storage(2), storage(3))
    async with running_controller(store, survey=logs) as running:
        await running.elected()
        request = ElectLeaders(UNCLEAN, (("t", 0),))
        pending = asyncio.ensure_future(running.controller.elect_leaders(request))
        await until(lambda: logs.asked == 1)
        await vanish(store, 2)
        await until(lambda: 2 not in running.image.members("storage"))
        reply = await pending
        assert [r.error for r in reply.partitions] == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        assert found(running).leader == -1


@story
async def test_a_reassignment_that_is_cancelled_at_a_loss_asks_the_original_replicas_and_is_reported() -> None:
    store, logs = MemoryStore(), Logs(node1=5, node2=9)
    only_added = replace(state_of(3, isr=(3,)), adding=(3,))
    await given(store, only_added)
    await register(store, storage(1), storage(2), storage(3))
    async with running_controller(store, survey=logs) as running:
        await running.elected()
        cancel = AlterReassignments((Reassignment("t", 0, None),))
        (refused,) = (await running.controller.alter_reassignments(cancel)).partitions
        assert (refused.error, logs.asked) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, 0)
        await store.txn([], [Put(keys.config("topic", "t"), encode(ConfigOverrides({"unclean.leader.election.enable": "true"})))])
        await until(lambda: running.image.overrides("topic", "t") != {})
        (done,) = (await running.controller.alter_reassignments(cancel)).partitions
        assert (done.error, logs.asked) == (0, 1)
        assert (found(running).leader, found(running).isr, found(running).recovering) == (2, (InSync(2, 1),), True)
        assert running.controller.unclean_elections == 1


@story
async def test_an_operators_request_is_written_and_answered_with_its_revision() -> None:
    store = MemoryStore()
    await given(store, state_of(2))
    await register(store, storage(1), storage(2), storage(3))
    async with running_controller(store) as running:
        await running.elected()
        reply = await running.controller.elect_leaders(ElectLeaders(PREFERRED, None))
        assert [(r.topic, r.partition, r.error) for r in reply.partitions] == [("t", 0, 0)]
        assert running.image.revision >= reply.revision
        assert (found(running).leader, found(running).leader_epoch) == (1, 5)


@story
async def test_leadership_returns_by_itself_after_a_while_unless_that_is_off() -> None:
    store = MemoryStore()
    await given(store, state_of(2))
    defaults = {"leader.imbalance.check.interval.seconds": "30", "auto.leader.rebalance.enable": "false"}
    await store.txn([], [Put(keys.config("broker", ""), encode(ConfigOverrides(defaults)))])
    await register(store, storage(1), storage(2), storage(3))
    async with running_controller(store) as running:
        await running.elected()
        await asyncio.sleep(100)
        assert found(running).leader == 2
        defaults["auto.leader.rebalance.enable"] = "true"
        await store.txn([], [Put(keys.config("broker", ""), encode(ConfigOverrides(defaults)))])
        await until(lambda: found(running).leader == 1)
