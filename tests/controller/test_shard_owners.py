"""The controller creates the topic of groups, and gives its shards to live coordinators. Time is virtual."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.configs.definitions import TOPIC
from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_store import LostAnswer, MemoryStore
from libs.cluster.records import GROUP_COORDINATOR, TRANSACTION_COORDINATOR, ElectedController, Member, PartitionState, Topic
from libs.cluster.store import Delete, Put
from libs.cluster.topic_names import GROUP_TOPIC, TRANSACTION_TOPIC
from libs.rpc.contracts.controller import (
    AlterConfigs,
    ConfigChange,
    ConfigResource,
    CreateInternalTopic,
    CreatePartitions,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    TopicRef,
    TopicResult,
)
from libs.wire.errors import ErrorCode
from services.controller.controller_meters import ControllerGauges
from services.controller.core.shards.shard_ownership import CALM_S, CALM_S_MAX
from services.controller.core.topics.alter_configs import DELETE, SET
from services.controller.shards.shard_owners import shards
from tests.cluster.conftest import run_virtually
from tests.controller.images import group_coordinator, led_by, storage, topic_id
from tests.controller.running_controller import RunningController, register, running_controller
from tests.support.polling import until

APPLIED, NOT_APPLIED = LostAnswer.APPLIED, LostAnswer.NOT_APPLIED
AT_ONCE_S = 0.1


def story(scenario: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test that is told in virtual time."""

    def run() -> None:
        run_virtually(scenario())

    run.__name__, run.__doc__ = scenario.__name__, scenario.__doc__
    return run


async def created(running: RunningController, name: str = GROUP_TOPIC) -> TopicResult:
    await running.elected()
    request = CreateInternalTopic(name)
    reply = await running.controller.administer(lambda administration, term: administration.create_internal_topic(term, request))
    assert running.image.revision >= reply.revision
    (result,) = reply.topics
    return result


async def ends(store: MemoryStore, *node_ids: int) -> None:
    await store.peer().txn([], [Delete(keys.member(GROUP_COORDINATOR, node_id)) for node_id in node_ids])


async def cluster(*members: Member, nodes: int = 1) -> MemoryStore:
    store = MemoryStore()
    await register(store, *(storage(n) for n in range(1, nodes + 1)), *members)
    return store


def states(image: ClusterImage) -> list[PartitionState]:
    matches = image.partitions_of(bytes.fromhex(image.topics[GROUP_TOPIC].topic_id))
    return [state for state in matches if state is not None]


def owners(image: ClusterImage) -> list[str]:
    return [state.owner for state in states(image)]


def spread(image: ClusterImage) -> dict[str, int]:
    return dict(Counter(owners(image)))


def unowned_shards(running: RunningController) -> float:
    return ControllerGauges(running.controller).unowned_shards()


async def states_when_owned(running: RunningController, expected: dict[str, int], within_s: float = 60.0) -> list[PartitionState]:
    """The states, once owners own so many shards each."""
    begun = asyncio.get_running_loop().time()
    await until(lambda: GROUP_TOPIC in running.image.topics and spread(running.image) == expected)
    assert asyncio.get_running_loop().time() - begun <= within_s
    return states(running.image)


def moved(before: Sequence[PartitionState], after: Sequence[PartitionState]) -> int:
    """The number of shards whose owner changed. The owner epoch rose with each change, and no leader was touched."""
    for was, now in zip(before, after, strict=True):
        assert (now.owner_epoch > was.owner_epoch) is (now.partition_epoch > was.partition_epoch)
        assert was.owner == now.owner or now.owner_epoch > was.owner_epoch
        assert (now.leader, now.leader_incarnation, now.leader_epoch) == (was.leader, was.leader_incarnation, was.leader_epoch)
    return sum(was.owner_epoch != now.owner_epoch for was, now in zip(before, after, strict=True))


# --- creating


@story
async def test_the_topic_of_groups_is_created_as_kafka_creates_it_and_owned_at_once() -> None:
    store = await cluster(group_coordinator(1), group_coordinator(2), nodes=3)
    async with running_controller(store) as running:
        result = await created(running)
        assert (result.error, result.partitions, result.replication_factor) == (0, 50, 3)
        topic = running.image.topics[GROUP_TOPIC]
        assert (topic.internal, topic.partitions, topic.topic_id) == (True, 50, result.topic_id.hex())
        assert running.image.overrides("topic", GROUP_TOPIC) == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
            "durability": "synced",
        }
        assert spread(running.image) == {"1@1": 25, "2@1": 25}
        assert {(state.owner_epoch, state.partition_epoch) for state in states(running.image)} == {(1, 0)}
        assert shards(running.image) == {GROUP_TOPIC: {"1@1": 25, "2@1": 25}}


@story
async def test_the_topic_of_transactions_is_created_likewise_and_owned_by_its_own_coordinators() -> None:
    coordinators = [group_coordinator(1), Member(TRANSACTION_COORDINATOR, 4, 1, "")]
    configured = {
        "transaction.state.log.num.partitions": "7",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.segment.bytes": "2000000",
    }
    async with running_controller(await cluster(*coordinators, nodes=3), defaults=configured) as running:
        result = await created(running, TRANSACTION_TOPIC)
        assert (result.error, result.partitions, result.replication_factor) == (0, 7, 2)
        assert running.image.overrides("topic", TRANSACTION_TOPIC) == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
            "min.insync.replicas": "1",
            "segment.bytes": "2000000",
            "durability": "synced",
        }
        assert shards(running.image) == {TRANSACTION_TOPIC: {"4@1": 7}}


@story
async def test_a_second_request_for_the_internal_topic_hears_that_it_is_there() -> None:
    async with running_controller(await cluster()) as running:
        results = await asyncio.gather(*(created(running) for _ in range(5)))
        assert {(result.error, result.partitions) for result in results} == {(0, 50)}
        assert len({result.topic_id for result in results}) == 1


@story
async def test_broker_configs_say_how_the_topic_is_created() -> None:
    configured = {
        "offsets.topic.num.partitions": "130",
        "offsets.topic.replication.factor": "2",
        "offsets.topic.segment.bytes": "2000000",
    }
    async with running_controller(await cluster(group_coordinator(1), nodes=3), defaults=configured) as running:
        result = await created(running)
        assert (result.error, result.partitions, result.replication_factor) == (0, 130, 2)
        assert running.image.overrides("topic", GROUP_TOPIC)["segment.bytes"] == "2000000"
        assert spread(running.image) == {"1@1": 130}


@story
async def test_a_factor_that_was_asked_for_and_cannot_be_reached_is_refused() -> None:
    async with running_controller(await cluster(nodes=2), defaults={"offsets.topic.replication.factor": "3"}) as running:
        assert (await created(running)).error == ErrorCode.INVALID_REPLICATION_FACTOR
        assert GROUP_TOPIC not in running.image.topics


@story
async def test_no_topic_is_created_that_nobody_would_own() -> None:
    async with running_controller(await cluster()) as running:
        for name in ("t", "__share_group_state", "", "__cluster_metadata"):
            assert (await created(running, name)).error == ErrorCode.INVALID_REQUEST
        assert not running.image.topics


@pytest.mark.parametrize("lost", [[APPLIED], [NOT_APPLIED], [APPLIED, APPLIED, NOT_APPLIED]])
@pytest.mark.parametrize("partitions", ["50", "130"])
def test_a_creation_whose_answer_is_lost_creates_it_once(lost: list[LostAnswer], partitions: str) -> None:
    async def scenario() -> None:
        store = await cluster(group_coordinator(1))
        async with running_controller(store, defaults={"offsets.topic.num.partitions": partitions}) as running:
            await running.elected()
            store.lost_answers = list(lost)
            result = await created(running)
            assert result.error == 0
            assert running.image.topics[GROUP_TOPIC].topic_id == result.topic_id.hex()
            assert spread(running.image) == {"1@1": int(partitions)}

    run_virtually(scenario())


# --- assigning


@story
async def test_shards_wait_for_the_first_coordinator_and_no_longer() -> None:
    store = await cluster()
    async with running_controller(store) as running:
        await created(running)
        await asyncio.sleep(10)
        assert spread(running.image) == {"": 50}
        await register(store.peer(), group_coordinator(1))
        before = states(running.image)
        after = await states_when_owned(running, {"1@1": 50}, AT_ONCE_S)
        assert moved(before, after) == 50
        assert {state.owner_epoch for state in after} == {1}


@story
async def test_a_topic_that_clients_created_is_owned_too() -> None:
    async with running_controller(await cluster(group_coordinator(1))) as running:
        await running.elected()
        assert (await running.create(NewTopic(GROUP_TOPIC, 3, 1))).topics[0].error == 0
        await states_when_owned(running, {"1@1": 3}, AT_ONCE_S)


@story
async def test_coordinators_that_start_one_after_the_other_get_their_shares_at_once_when_it_is_calm() -> None:
    store = await cluster(group_coordinator(1))
    async with running_controller(store) as running:
        await created(running)
        before = states(running.image)
        for node_id in (2, 3):
            await asyncio.sleep(CALM_S * 0.8)
            await register(store.peer(), group_coordinator(node_id))
            await asyncio.sleep(CALM_S * 0.1)
            assert spread(running.image) == {"1@1": 50}
        after = await states_when_owned(running, {"1@1": 17, "2@1": 17, "3@1": 16}, CALM_S)
        assert moved(before, after) == 33
        assert {state.owner_epoch for state in after} == {1, 2}, "none moved twice"


@story
async def test_one_that_starts_and_ends_all_the_time_does_not_keep_another_from_its_share() -> None:
    store = await cluster(group_coordinator(1))
    async with running_controller(store) as running:
        await created(running)
        await register(store.peer(), group_coordinator(2))
        begun = asyncio.get_running_loop().time()
        for life in range(1, 100):
            if spread(running.image).get("2@1"):
                break
            await register(store.peer(), group_coordinator(3, life))
            await asyncio.sleep(CALM_S * 0.7)
        assert asyncio.get_running_loop().time() - begun < CALM_S_MAX + 2 * CALM_S


@story
async def test_a_coordinator_that_dies_loses_its_shards_at_once_and_nobody_else_loses_any() -> None:
    store = await cluster(group_coordinator(1), group_coordinator(2), group_coordinator(3))
    async with running_controller(store) as running:
        await created(running)
        before = await states_when_owned(running, {"1@1": 17, "2@1": 17, "3@1": 16})
        await ends(store, 2)
        after = await states_when_owned(running, {"1@1": 25, "3@1": 25}, AT_ONCE_S)
        assert moved(before, after) == 17
        assert all(now.owner == was.owner for was, now in zip(before, after, strict=True) if was.owner != "2@1")
        await asyncio.sleep(10)
        assert states(running.image) == after


@story
async def test_while_no_coordinator_lives_shards_stay_whose_they_were() -> None:
    store = await cluster(group_coordinator(1), group_coordinator(2))
    async with running_controller(store) as running:
        await created(running)
        before = states(running.image)
        assert unowned_shards(running) == 0
        await ends(store, 1, 2)
        await asyncio.sleep(10)
        assert states(running.image) == before
        assert unowned_shards(running) == 50
        await register(store.peer(), group_coordinator(2))
        after = await states_when_owned(running, {"2@1": 50}, AT_ONCE_S)
        assert moved(before, after) == 25, "it is the same life: what it had it has"


@story
async def test_a_coordinator_that_restarts_gets_its_shards_anew_and_at_once() -> None:
    store = await cluster(group_coordinator(1), group_coordinator(2))
    async with running_controller(store) as running:
        await created(running)
        before = states(running.image)
        await register(store.peer(), group_coordinator(1, incarnation=2))
        after = await states_when_owned(running, {"1@2": 25, "2@1": 25}, AT_ONCE_S)
        assert moved(before, after) == 25
        assert [state.owner.replace("1@2", "1@1") for state in after] == [state.owner for state in before]


@story
async def test_a_stopping_coordinator_loses_its_shards_before_it_ends() -> None:
    store = await cluster(group_coordinator(1), group_coordinator(2))
    async with running_controller(store) as running:
        await created(running)
        before = states(running.image)
        await register(store.peer(), replace(group_coordinator(1), stopping=True))
        after = await states_when_owned(running, {"2@1": 50}, AT_ONCE_S)
        assert moved(before, after) == 25
        await register(store.peer(), replace(group_coordinator(2), stopping=True))
        await asyncio.sleep(10)
        assert states(running.image) == after, "the last one keeps them for as long as it lives"


@story
async def test_a_leader_that_changes_takes_nothing_from_its_shards_owner() -> None:
    store = await cluster(group_coordinator(1), group_coordinator(2))
    async with running_controller(store) as running:
        await created(running)
        before = states(running.image)
        await register(store.peer(), storage(1, incarnation=2), group_coordinator(1, incarnation=2))
        await until(lambda: {state.leader_incarnation for state in states(running.image)} == {2})
        after = await states_when_owned(running, {"1@2": 25, "2@1": 25})
        for was, now in zip(before, after, strict=True):
            assert now.owner_epoch - was.owner_epoch == int(was.owner == "1@1")
            assert now.leader_epoch == was.leader_epoch + 1


# --- when writing goes wrong


@pytest.mark.parametrize("lost", [[APPLIED], [NOT_APPLIED], [NOT_APPLIED, APPLIED, APPLIED, NOT_APPLIED]])
def test_an_assignment_whose_answer_is_lost_is_made_once(lost: list[LostAnswer]) -> None:
    async def scenario() -> None:
        store = await cluster(group_coordinator(1), group_coordinator(2))
        async with running_controller(store, defaults={"offsets.topic.num.partitions": "200"}) as running:
            await created(running)
            before = states(running.image)
            store.lost_answers = list(lost)
            await ends(store, 1)
            after = await states_when_owned(running, {"2@1": 200})
            await until(lambda: len(store.lost_answers) < len(lost))
            assert moved(before, after) == 100
            assert {now.owner_epoch for was, now in zip(before, after, strict=True) if was.owner == "1@1"} == {2}

    run_virtually(scenario())


@story
async def test_changes_while_the_store_is_away_are_made_up_for() -> None:
    store = await cluster(group_coordinator(1), group_coordinator(2))
    async with running_controller(store, write_timeout_s=0.5) as running:
        await created(running)
        before = states(running.image)
        store.lost_answers = [NOT_APPLIED] * 100
        await ends(store, 1)
        await asyncio.sleep(1.9)
        store.lost_answers = []
        after = await states_when_owned(running, {"2@1": 50})
        assert moved(before, after) == 25


@story
async def test_a_controller_that_was_deposed_assigns_nothing() -> None:
    store = await cluster(group_coordinator(1), group_coordinator(2))
    async with running_controller(store) as running:
        await created(running)
        before = states(running.image)
        store.watch_delay_s = 0.5  # it hears of its own end late, and of the coordinator's at the same time
        lease = await store.peer().grant_lease(5)
        successor = Put(keys.CONTROLLER, encode(ElectedController(2, 200)), lease)
        await store.peer().txn([], [Delete(keys.CONTROLLER)])
        await store.peer().txn([], [successor, Delete(keys.member(GROUP_COORDINATOR, 1))])
        await asyncio.sleep(4.0)
        assert states(running.image) == before
        after = await states_when_owned(running, {"2@1": 50}, 10.0)
        assert running.controller.elected, "it was elected again, and then it may"
        assert moved(before, after) == 25


@story
async def test_a_coordinator_that_ends_while_nobody_is_elected_is_replaced_by_the_next_controller_at_once() -> None:
    store = await cluster(group_coordinator(1), group_coordinator(2))
    async with running_controller(store) as running:
        await created(running)
        before = states(running.image)
    await ends(store, 1)
    async with running_controller(store.peer(), 2) as successor:
        await successor.elected()
        after = await states_when_owned(successor, {"2@1": 50}, AT_ONCE_S)
        assert moved(before, after) == 25


@story
async def test_a_shard_without_state_is_left_to_whoever_brings_it() -> None:
    """An unfinished creation, whose controller ended. The other partitions get owners all the same."""
    store = await cluster(group_coordinator(1))
    record = Topic(GROUP_TOPIC, topic_id(7).hex(), 3, internal=True)
    await store.txn([], [Put(keys.topic(GROUP_TOPIC), encode(record)), Put(keys.partition(topic_id(7), 1), encode(led_by(1)))])
    async with running_controller(store) as running:
        await until(lambda: GROUP_TOPIC in running.image.topics and owners(running.image) == ["1@1"])


# --- what clients do to the topic


async def altered(running: RunningController, *changes: ConfigChange, replace: bool = False) -> tuple[int, dict[str, str]]:
    """The answer, and the topic's own configs then."""
    request = AlterConfigs((ConfigResource(TOPIC, GROUP_TOPIC, changes, replace),))
    reply = await running.controller.administer(lambda administration, term: administration.alter_configs(term, request))
    return reply.resources[0].error, dict(running.image.overrides("topic", GROUP_TOPIC))


@story
async def test_the_topic_of_groups_stays_synced_whoever_creates_it_and_whatever_is_set() -> None:
    async with running_controller(await cluster(), defaults={"log.durability": "replicated"}) as running:
        await running.elected()
        lax = NewTopic(GROUP_TOPIC, 1, 1, configs=(("durability", "replicated"),))
        assert (await running.create(lax)).topics[0].error == ErrorCode.INVALID_CONFIG
        await running.create(NewTopic(GROUP_TOPIC, 1, 1, configs=(("retention.ms", "5"),)))
        assert running.image.overrides("topic", GROUP_TOPIC) == {"retention.ms": "5", "durability": "synced"}
        refused, _ = await altered(running, ConfigChange("durability", SET, "replicated"))
        assert refused == ErrorCode.INVALID_CONFIG
        assert await altered(running, ConfigChange("durability", DELETE, None)) == (
            0,
            {"retention.ms": "5", "durability": "synced"},
        )
        assert await altered(running, ConfigChange("cleanup.policy", SET, "compact"), replace=True) == (
            0,
            {"cleanup.policy": "compact", "durability": "synced"},
        )


@story
async def test_the_topic_of_groups_gets_no_more_partitions() -> None:
    """Groups would be looked for in other shards."""
    async with running_controller(await cluster(group_coordinator(1))) as running:
        await created(running)
        request = CreatePartitions((MorePartitions(GROUP_TOPIC, 51),))
        reply = await running.controller.administer(lambda administration, term: administration.create_partitions(term, request))
        assert reply.topics[0].error == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert running.image.topics[GROUP_TOPIC].partitions == 50


@story
async def test_the_topic_of_groups_can_be_deleted_and_is_created_and_owned_anew() -> None:
    async with running_controller(await cluster(group_coordinator(1))) as running:
        former = await created(running)
        request = DeleteTopics((TopicRef(GROUP_TOPIC),))
        reply = await running.controller.administer(lambda administration, term: administration.delete_topics(term, request))
        assert reply.topics[0].error == 0
        assert shards(running.image) == {}
        assert (await created(running)).topic_id != former.topic_id
        assert {(state.owner, state.owner_epoch) for state in states(running.image)} == {("1@1", 1)}
