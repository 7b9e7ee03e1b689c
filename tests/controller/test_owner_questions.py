"""Whom a controller names as the owner of a shard: the question of a leader whose store does not answer (ADR 40)."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from libs.cluster import keys
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import GROUP_COORDINATOR
from libs.cluster.store import Delete
from libs.cluster.topic_names import GROUP_TOPIC
from libs.rpc.contracts.controller import CreateInternalTopic
from libs.rpc.contracts.ownership import SHARD_OWNER, NamedOwner, ShardOwner
from libs.rpc.messages.schema import pack
from services.controller.api import methods
from tests.controller.images import group_coordinator, storage
from tests.controller.running_controller import RunningController, register, running_controller, story
from tests.support.polling import until


def named(running: RunningController, topic_id: bytes, partition: int = 0) -> NamedOwner:
    """The answer of the handler, which it gives before it returns."""
    answers: list[NamedOwner] = []
    call: Any = SimpleNamespace(body=pack(ShardOwner(topic_id, partition)), reply=answers.append)
    methods(running.controller, Mock())[SHARD_OWNER](call)
    (answer,) = answers
    return answer


async def create_shards(running: RunningController) -> bytes:
    """The id of the topic of groups, whose shards have owners from the start."""
    await running.elected()
    request = CreateInternalTopic(GROUP_TOPIC)
    reply = await running.controller.administer(lambda own, term: own.create_internal_topic(term, request))
    (topic,) = reply.topics
    return topic.topic_id


@story
async def test_the_elected_controller_and_a_standby_name_the_owner_and_its_epoch() -> None:
    store = MemoryStore()
    await register(store, storage(1), group_coordinator(1))
    async with running_controller(store) as active:
        topic_id = await create_shards(active)
        async with running_controller(store.peer(), 2) as standby:
            for each in (active, standby):
                await each.image_when(lambda image: GROUP_TOPIC in image.topics)
                state = each.image.partition(topic_id, 0)
                assert state is not None
                assert named(each, topic_id) == NamedOwner(state.owner, state.owner_epoch)
                assert state.owner.startswith("1@")
            assert not standby.controller.elected
            await register(store, group_coordinator(2))
            await store.txn([], [Delete(keys.member(GROUP_COORDINATOR, 1))])
            before = named(active, topic_id).owner_epoch
            for each in (active, standby):
                await until(lambda each=each: named(each, topic_id).owner.startswith("2@"))
                assert named(each, topic_id).owner_epoch > before


@story
async def test_a_partition_that_the_image_lacks_has_nobody_in_no_epoch() -> None:
    store = MemoryStore()
    await register(store, storage(1), group_coordinator(1))
    async with running_controller(store) as running:
        topic_id = await create_shards(running)
        await running.image_when(lambda image: GROUP_TOPIC in image.topics)
        for unknown in ((b"\1" * 16, 0), (topic_id, 50)):
            assert named(running, *unknown) == NamedOwner("", -1)
