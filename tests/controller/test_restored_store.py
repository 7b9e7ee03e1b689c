"""Partitions of a metadata store that was restored from a backup: their logs decide who leads."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import InSync, MetadataMark, PartitionState, Replica
from libs.cluster.store import Put
from libs.rpc.contracts.controller import UNCLEAN, ElectLeaders, NewTopic
from services.controller.core.elections.doubt import EPOCHS_SKIPPED, in_doubt
from services.controller.core.elections.leader_election import ReplicaLogEnd, elect_by_logs, log_end_query
from services.controller.core.model.replica_health import LiveNode
from services.controller.core.partitions.partition_reconciler import SteadyPartitions, reconcile
from services.controller.core.partitions.partition_states import follows_the_table
from services.controller.elections.log_end_survey import Key, LogEndsByPartition
from services.controller.term.restored_store import WAY_OUT
from tests.cluster.conftest import run_virtually
from tests.controller.images import storage
from tests.controller.running_controller import register, running_controller, story, vanish
from tests.support.requirements import ROOT

STATE = PartitionState(tuple(Replica(n, "d") for n in (1, 2, 3)), 1, 1, 4, 9, (InSync(1, 1), InSync(2, 1)))


def live(*nodes: int) -> dict[int, LiveNode]:
    """Nodes that restarted, and whose page caches survived."""
    return {node: LiveNode(2, frozenset({"d"}), survived_from=1) for node in nodes}


@pytest.mark.parametrize("state", [STATE, replace(STATE, leader=-1, leader_incarnation=0)], ids=["led", "without a leader"])
def test_doubt_is_a_step_of_the_table_and_gives_out_no_epoch_twice(state: PartitionState) -> None:
    doubted = in_doubt(state)
    assert follows_the_table(state, doubted)
    assert (doubted.leader, doubted.leader_epoch, doubted.partition_epoch) == (-1, 4 + EPOCHS_SKIPPED, 10)
    shard = replace(state, owner="1@1", owner_epoch=7)
    owned = in_doubt(shard)
    assert follows_the_table(shard, owned)
    assert owned.owner_epoch == 7 + EPOCHS_SKIPPED, "markers of the lost branch have the owner epochs after 7"


@pytest.mark.parametrize("unclean", [True, False])
@pytest.mark.parametrize("synced", [True, False])
def test_no_replica_is_elected_before_all_have_reported_their_logs_not_even_one_of_the_backups_isr(
    synced: bool, unclean: bool
) -> None:
    doubted = in_doubt(STATE)
    for nodes in ((1,), (1, 2), (2, 3)):
        assert not SteadyPartitions(live(*nodes))(doubted)
        assert reconcile(doubted, live(*nodes), synced=synced) is doubted
        assert log_end_query(doubted, live(*nodes), synced=synced, unclean=unclean) is None
    query = log_end_query(doubted, live(1, 2, 3), synced=synced, unclean=unclean)
    assert query is not None
    ends = {InSync(1, 2): ReplicaLogEnd(4, 10), InSync(2, 2): ReplicaLogEnd(4, 10)}
    assert elect_by_logs(doubted, query, ends) is None
    elected = elect_by_logs(doubted, query, ends | {InSync(3, 2): ReplicaLogEnd(5, 12)})
    assert elected is not None
    assert (elected.leader, elected.isr, elected.recovering) == (3, (InSync(3, 2),), False)
    assert elected.leader_epoch == 5 + EPOCHS_SKIPPED


def test_the_epoch_rises_above_those_of_all_logs() -> None:
    doubted = in_doubt(STATE)
    query = log_end_query(doubted, live(1, 2, 3), synced=True, unclean=False)
    assert query is not None
    ends = {member: ReplicaLogEnd(5000 - member.node_id, 7) for member in query.candidates}
    elected = elect_by_logs(doubted, query, ends)
    assert elected is not None
    assert (elected.leader, elected.leader_epoch) == (1, 5000)


EMPTY = ReplicaLogEnd(-1, 0)


@pytest.mark.parametrize(
    ("in_sync", "ends", "expected"),
    [
        ((1, 2), {1: EMPTY, 2: EMPTY, 3: ReplicaLogEnd(5, 12)}, 3),
        ((3,), {1: ReplicaLogEnd(4, 50), 2: ReplicaLogEnd(4, 50), 3: ReplicaLogEnd(7, 90)}, 3),
        ((1, 2), {1: ReplicaLogEnd(4, 10), 2: ReplicaLogEnd(4, 10), 3: EMPTY}, 1),
    ],
    ids=["it ended after the backup", "it alone was in sync", "it had not begun"],
)
def test_replicas_that_a_reassignment_adds_are_asked_too(
    in_sync: tuple[int, ...], ends: dict[int, ReplicaLogEnd], expected: int
) -> None:
    """Node 3 is added. After the backup it may have become the only one with a log."""
    state = replace(STATE, adding=(3,), leader=in_sync[0], isr=tuple([InSync(n, 1) for n in in_sync]))
    doubted = in_doubt(state)
    assert log_end_query(doubted, live(1, 2), synced=True, unclean=False) is None
    query = log_end_query(doubted, live(1, 2, 3), synced=True, unclean=False)
    assert query is not None
    elected = elect_by_logs(doubted, query, {member: ends[member.node_id] for member in query.candidates})
    assert elected is not None
    assert (elected.leader, elected.isr, elected.adding) == (expected, (InSync(expected, 2),), (3,))


@story
async def test_nobody_is_elected_on_the_mark_of_a_node_that_registers_with_one_of_a_lost_branch() -> None:
    """The controller has no mark of its own: its volume is new. The lost branch may have given the next epoch to another node."""
    store = MemoryStore()
    await register(store, storage(1), storage(2))
    async with running_controller(store) as running:
        await running.elected()
        topic_id = (await running.create(NewTopic("t", 1, 2))).topics[0].topic_id
        await vanish(store.peer(), 1, 2)
        before = await running.image_when(lambda image: state_of(image, topic_id).leader == -1)
    seen: list[PartitionState] = []
    async with running_controller(store, 2) as running:
        await running.elected()
        running.follower.subscribe(lambda _, image: seen.append(state_of(image, topic_id)))
        back = replace(storage(1, 2), seen=MetadataMark(before.revision + 100, (1, 2, 3)), survived_from=1)
        await store.txn([], [Put(keys.member("storage", 1), encode(back))])
        await running.image_when(lambda image: state_of(image, topic_id).leader_epoch >= EPOCHS_SKIPPED)
        # From then on, what the store lacks does not count as deleted.
        await running.image_when(lambda image: image.history.restored_ms > 0)
    assert [state.leader for state in seen if state.leader_epoch < EPOCHS_SKIPPED and state.leader >= 0] == []


def state_of(image: ClusterImage, topic_id: bytes) -> PartitionState:
    state = image.partition(topic_id, 0)
    assert state is not None
    return state


async def both_have_the_same(image: ClusterImage, candidates: Mapping[Key, Sequence[InSync]]) -> LogEndsByPartition:
    return {key: {member: ReplicaLogEnd(4, 10) for member in asked} for key, asked in candidates.items()}


@pytest.mark.parametrize("lost", [False, True], ids=["all nodes are started", "one is lost for good"])
def test_what_the_controller_advises_after_a_restoration_gives_each_partition_a_leader(
    lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await register(store, storage(1), storage(2))
        async with running_controller(store) as running:
            await running.elected()
            topic_id = (await running.create(NewTopic("t", 1, 2))).topics[0].topic_id
            await vanish(store.peer(), 1, 2)
            before = await running.image_when(lambda image: state_of(image, topic_id).leader == -1)
        async with running_controller(store, 2, survey=both_have_the_same) as running:
            await running.elected()
            seen = MetadataMark(before.revision + 100, (1, 2, 3))
            await register(store, replace(storage(1, 2), seen=seen, survived_from=1))
            await running.image_when(lambda image: state_of(image, topic_id).leader_epoch >= EPOCHS_SKIPPED)
            logged = [each.__dict__["fields"] for each in caplog.records if each.message.startswith("metadata store is an older")]
            assert [fields["way_out"] for fields in logged] == [WAY_OUT]
            assert state_of(running.image, topic_id).leader == -1
            if lost:
                reply = await running.controller.elect_leaders(ElectLeaders(UNCLEAN, (("t", 0),)))
                assert [each.error for each in reply.partitions] == [0]
            else:
                await register(store, replace(storage(2, 2), survived_from=1))
            await running.image_when(lambda image: state_of(image, topic_id).leader >= 0)

    run_virtually(scenario())


def test_the_page_that_the_advice_names_says_what_helps_where_a_node_is_lost() -> None:
    page, _, heading = WAY_OUT.rpartition(": ")[2].partition(", ")
    section = (ROOT / page).read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert "kafka-leader-election --election-type unclean" in section
    assert "delete the topic" in section
