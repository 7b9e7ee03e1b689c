"""Sweeping against a creation or growth whose partitions it takes for abandoned: only one of the two is applied, however late."""

from dataclasses import replace

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image_follower import ImageFollower
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import Topic
from libs.cluster.store import Outcome, Put
from libs.rpc.contracts.controller import TopicResult
from services.controller.core.topics.create_partitions import PlannedGrowth
from services.controller.core.topics.topics import PlannedTopic
from services.controller.term import writes
from services.controller.term.writes import Write
from tests.controller.images import led_by, topic_id


def planned(partitions: int) -> PlannedTopic:
    topic = Topic("large", topic_id(7).hex(), partitions)
    return PlannedTopic(topic, (led_by(1),) * partitions, {}, TopicResult("large", 0))


async def apply(store: MemoryStore, write: Write) -> Outcome:
    return (await store.txn(write.compares, write.operations)).outcome


async def test_the_end_of_a_creation_that_comes_after_its_sweeping_creates_nothing() -> None:
    store = MemoryStore()
    follower = ImageFollower(store)
    await follower.start()
    steps = writes.creation(follower.image, [planned(130)])
    for _ in range(2):
        step, _ = next(steps)
        assert await apply(store, step) is Outcome.OK
        await follower.wait_for(store.keyspace.revision, 60)
    late, _ = next(steps)
    (sweep,) = writes.sweeping(follower.image)
    assert await apply(store, sweep) is Outcome.OK
    assert await apply(store, late) is Outcome.CONFLICT
    assert (await store.range(keys.TOPICS)).items == ()
    await follower.close()


async def test_a_sweep_that_comes_after_the_end_of_its_creation_deletes_nothing() -> None:
    store = MemoryStore()
    follower = ImageFollower(store)
    await follower.start()
    late: list[Write] = []
    for step, _ in writes.creation(follower.image, [planned(130)]):
        late = writes.sweeping(follower.image)
        assert await apply(store, step) is Outcome.OK
        await follower.wait_for(store.keyspace.revision, 60)
    assert await apply(store, late[0]) is Outcome.CONFLICT
    assert writes.sweeping(follower.image) == []
    assert len((await store.range(keys.partitions_of(topic_id(7)))).items) == 130
    await follower.close()


@pytest.mark.parametrize("first", ["sweep", "growth"])
async def test_of_a_growth_and_its_sweeping_only_one_is_applied(first: str) -> None:
    store = MemoryStore()
    follower = ImageFollower(store)
    await follower.start()
    before = Topic("t", topic_id(3).hex(), 1)
    await store.txn([], [Put(keys.partition(topic_id(3), 0), encode(led_by(1))), Put(keys.topic("t"), encode(before))])
    await follower.wait_for(store.keyspace.revision, 60)
    growth = PlannedGrowth(before, replace(before, partitions=101), (led_by(1),) * 100, TopicResult("t", 0))
    half, end = writes.growth(follower.image, growth)
    assert await apply(store, half) is Outcome.OK
    await follower.wait_for(store.keyspace.revision, 60)
    (sweep,) = writes.sweeping(follower.image)
    one, other = (sweep, end) if first == "sweep" else (end, sweep)
    assert await apply(store, one) is Outcome.OK
    assert await apply(store, other) is Outcome.CONFLICT
    await follower.wait_for(store.keyspace.revision, 60)
    assert len((await store.range(keys.partitions_of(topic_id(3)))).items) == follower.image.topics["t"].partitions
    await follower.close()
