"""A topic that was `replicated` for a moment has records that were acknowledged from page caches, whoever looked when."""

import asyncio
from dataclasses import replace

import pytest

from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import PartitionState
from libs.rpc.contracts.controller import AlterConfigs, AlterPartitions, ConfigChange, ConfigResource, NewIsr, NewTopic
from services.controller.administration.isr_changes import change_isrs
from services.controller.core.topics.alter_configs import DELETE, SET
from tests.controller.images import storage
from tests.controller.running_controller import RunningController, register, running_controller, story

BROKER, TOPIC = 4, 2


def durability(value: str | None, kind: int = TOPIC, name: str = "t") -> ConfigResource:
    config = "durability" if kind == TOPIC else "log.durability"
    return ConfigResource(kind, name, (ConfigChange(config, SET if value is not None else DELETE, value),))


async def alter(running: RunningController, resource: ConfigResource) -> None:
    request = AlterConfigs((resource,))
    reply = await running.controller.administer(lambda administration, term: administration.alter_configs(term, request))
    assert reply.resources[0].error == 0


def state_of(image: ClusterImage, name: str = "t") -> PartitionState:
    state = image.partition(bytes.fromhex(image.topics[name].topic_id), 0)
    assert state is not None
    return state


async def queued(running: RunningController, *resources: ConfigResource) -> PartitionState:
    """The state after these changes, queued before the first was carried out."""
    await asyncio.gather(*(alter(running, resource) for resource in resources))
    return state_of(running.image)


def changes(how: str) -> list[ConfigResource]:
    kind, name = (BROKER, "") if how == "of all topics" else (BROKER, "1") if how == "of one broker" else (TOPIC, "t")
    back = None if how == "by removal" else "synced"
    return [durability("synced", kind, name), durability("replicated", kind, name), durability(back, kind, name)]


@pytest.mark.parametrize("how", ["of the topic", "by removal", "of all topics", "of one broker"])
def test_changes_there_and_back_that_are_queued_together_leave_their_mark(how: str) -> None:
    @story
    async def scenario() -> None:
        store = MemoryStore(Keyspace())
        await register(store, storage(1))
        async with running_controller(store) as running:
            await running.elected()
            await running.create(NewTopic("t", 1, 1))
            assert not state_of(running.image).lax
            state = await queued(running, *changes(how))
            assert state.lax

    scenario()


@story
async def test_a_leaders_report_from_before_a_topic_was_replicated_again_counts_no_more() -> None:
    """It was true of the records of that time. The state was `lax` throughout."""
    store = MemoryStore(Keyspace())
    await register(store, storage(1))
    async with running_controller(store) as running:
        await running.elected()
        await running.create(NewTopic("t", 1, 1))
        before = await queued(running, durability("replicated"), durability("synced"))
        assert before.lax
        await queued(running, durability("replicated"), durability("synced"))
        topic_id = bytes.fromhex(running.image.topics["t"].topic_id)
        isr = tuple((member.node_id, member.incarnation) for member in before.isr)
        said = NewIsr(topic_id, 0, before.leader_epoch, before.partition_epoch, isr, durable=True)
        incarnation = before.leader_incarnation

        async def report(one: NewIsr) -> None:
            request = AlterPartitions(1, incarnation, (one,))
            await running.controller.administer(
                lambda administration, term: change_isrs(frozenset, administration, term, request)
            )

        await report(said)
        assert state_of(running.image).lax
        await report(replace(said, partition_epoch=state_of(running.image).partition_epoch))
        assert not state_of(running.image).lax


@story
async def test_other_configs_and_synced_topics_are_left_alone() -> None:
    store = MemoryStore(Keyspace())
    await register(store, storage(1))
    async with running_controller(store) as running:
        await running.elected()
        await running.create(NewTopic("t", 1, 1), NewTopic("other", 1, 1))
        await queued(running, durability("replicated"))
        before = await running.image_when(lambda image: state_of(image).lax)
        epochs = [state_of(before, name).partition_epoch for name in ("t", "other")]
        await alter(running, ConfigResource(TOPIC, "t", (ConfigChange("retention.ms", SET, "1000"),)))
        await alter(running, durability("synced", TOPIC, "other"))
        assert [state_of(running.image, name).partition_epoch for name in ("t", "other")] == epochs
