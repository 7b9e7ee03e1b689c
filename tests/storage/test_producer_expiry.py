"""Producers are forgotten by time alone: producer.id.expiration.ms after their last batch, looked for every so often."""

import asyncio
from dataclasses import replace

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides
from libs.commitlog.producers import producer_state
from libs.commitlog.producers.producer_entries import NO_OFFSET, ProducerEntry
from libs.wire.errors import ErrorCode
from services.storage.cleanup import known_producers
from tests.storage.cluster import NODE_ID, StorageCluster, batch, partition_of
from tests.storage.retention import HOUR, check
from tests.storage.set_clock import SetClock
from tests.support.polling import until

DAY = 24 * HOUR
PRODUCER = 4711
OUT_OF_ORDER_SEQUENCE_NUMBER = int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


async def send(cluster: StorageCluster, clock: SetClock, topic: bytes, sequence: int, producer: int = PRODUCER) -> int:
    sent = batch(b"x", timestamp=clock.now_ms, producer=(producer, 0, sequence))
    return (await cluster.append(topic, sent)).error


async def expire(cluster: StorageCluster) -> None:
    assert cluster.node is not None
    await cluster.node.opened.background.upkeep.expire_producers()


def known(cluster: StorageCluster, topic: bytes) -> set[int]:
    return set(partition_of(cluster, topic).log.producers.entries)


async def test_a_producer_is_remembered_for_a_day_of_silence(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await cluster.topic("day")
    assert await send(cluster, clock, topic, 0) == 0
    clock.now_ms += HOUR
    assert await send(cluster, clock, topic, 1) == 0
    await expire(cluster)
    clock.now_ms += DAY - 1
    await expire(cluster)
    assert await send(cluster, clock, topic, 7) == OUT_OF_ORDER_SEQUENCE_NUMBER
    clock.now_ms += 1
    await expire(cluster)
    assert known(cluster, topic) == set()
    assert await send(cluster, clock, topic, 7) == 0  # nobody knows better, as in Kafka


async def test_a_backfill_of_old_records_keeps_its_producer(cluster: StorageCluster, clock: SetClock) -> None:
    """A retry must be known for what it is, however old its records say that they are."""
    topic = await cluster.topic("backfill", retention_ms="-1")
    sent = batch(b"x", timestamp=clock.now_ms - 400 * DAY, producer=(PRODUCER, 0, 0))
    assert (await cluster.append(topic, sent)).error == 0
    await expire(cluster)
    clock.now_ms += HOUR
    await expire(cluster)
    again = await cluster.append(topic, sent)
    assert (again.error, again.base_offset) == (0, 0)
    assert partition_of(cluster, topic).log_end_offset == 1


async def test_only_the_silent_are_forgotten(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await cluster.topic("some")
    for producer in (1, 2):
        assert await send(cluster, clock, topic, 0, producer) == 0
    await expire(cluster)
    clock.now_ms += DAY // 2
    assert await send(cluster, clock, topic, 1, 2) == 0
    await expire(cluster)
    clock.now_ms += DAY // 2
    await expire(cluster)
    assert known(cluster, topic) == {2}


async def test_the_time_can_be_changed_while_the_node_runs(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await cluster.topic("changed")
    assert await send(cluster, clock, topic, 0) == 0
    await expire(cluster)
    clock.now_ms += HOUR
    await expire(cluster)
    assert known(cluster, topic) == {PRODUCER}
    await cluster.write(keys.config("broker", ""), encode(ConfigOverrides({"producer.id.expiration.ms": str(HOUR)})))

    async def forgotten() -> bool:
        await expire(cluster)
        return known(cluster, topic) == set()

    await until(forgotten)


async def test_it_is_looked_for_every_so_often(cluster: StorageCluster, clock: SetClock) -> None:
    await cluster.stop()
    cluster.config = replace(cluster.config, broker_configs=("producer.id.expiration.check.interval.ms=5",))
    await cluster.start()
    topic = await cluster.topic("often")
    assert await send(cluster, clock, topic, 0) == 0
    await expire(cluster)
    clock.now_ms += DAY
    await until(lambda: known(cluster, topic) == set())


async def test_deleted_records_do_not_take_their_producer_with_them(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await cluster.topic("kept", internal_segment_bytes="300", retention_ms=str(HOUR))
    for sequence in range(10):
        assert await send(cluster, clock, topic, sequence) == 0
    clock.now_ms += HOUR + 1
    await check(cluster)
    assert partition_of(cluster, topic).log_start_offset == 10
    assert known(cluster, topic) == {PRODUCER}
    assert await send(cluster, clock, topic, 12) == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await send(cluster, clock, topic, 10) == 0


@pytest.mark.parametrize("jump", [-DAY, 365 * DAY])
async def test_a_clock_that_jumps_forgets_nobody(cluster: StorageCluster, clock: SetClock, jump: int) -> None:
    topic = await cluster.topic("jump")
    assert await send(cluster, clock, topic, 0) == 0
    clock.jumped_ms += jump
    await expire(cluster)
    assert known(cluster, topic) == {PRODUCER}


async def test_broker_configs_can_be_given_at_a_nodes_start(cluster: StorageCluster, clock: SetClock) -> None:
    await cluster.stop()
    cluster.config = replace(
        cluster.config, broker_configs=("producer.id.expiration.ms=1000", "log.cleanup.policy=compact", "delete")
    )
    assert cluster.config.static == {"producer.id.expiration.ms": "1000", "log.cleanup.policy": "compact,delete"}
    await cluster.start()
    member = await cluster.member()
    assert member is not None
    assert member.configs == cluster.config.static
    topic = await cluster.topic("told")
    assert partition_of(cluster, topic).config.cleanup_policy == ("compact", "delete")
    await cluster.write(keys.config("broker", str(NODE_ID)), encode(ConfigOverrides({"log.cleanup.policy": "delete"})))
    await until(lambda: partition_of(cluster, topic).config.cleanup_policy == ("delete",))
    assert await send(cluster, clock, topic, 0) == 0
    await expire(cluster)
    clock.now_ms += 1000
    await expire(cluster)
    assert known(cluster, topic) == set()


async def test_a_node_may_be_started_with_configs_without_effect_and_registers_them(cluster: StorageCluster) -> None:
    await cluster.stop()
    cluster.config = replace(cluster.config, broker_configs=("num.io.threads=9",))
    await cluster.start()
    member = await cluster.member()
    assert member is not None
    assert member.configs == {"num.io.threads": "9"}


@pytest.mark.parametrize(
    "entry",
    [
        "log.retention.hours=soon",
        "log.retention.hours=0",
        "no.such=1",
        "delete",
        "num.partitions=3",
        "node.id=4",
        "log.roll.ms=0",
        "log.message.timestamp.difference.max.ms=5",
        "ssl.key.password=secret",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ],
)
def test_an_invalid_broker_config_ends_a_nodes_start(cluster: StorageCluster, entry: str) -> None:
    with pytest.raises(ValueError, match=r"^PENSTOCK_BROKER_CONFIGS"):
        replace(cluster.config, broker_configs=(entry,))


async def test_a_partition_forgets_those_that_were_silent_the_longest(cluster: StorageCluster, clock: SetClock) -> None:
    """Made-up ids. Such a producer is new to the partition again, as in KIP-360: any sequence is taken."""
    topic = await cluster.topic("bounded", producer_ids_max="3")
    for producer in range(100, 105):
        assert await send(cluster, clock, topic, 0, producer) == 0
    assert known(cluster, topic) == {102, 103, 104}
    assert await send(cluster, clock, topic, 7, 102) == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await send(cluster, clock, topic, 7, 100) == 0
    assert known(cluster, topic) == {103, 104, 100}


async def test_a_node_bounds_the_producers_of_all_its_partitions(cluster: StorageCluster, clock: SetClock) -> None:
    few, many = await cluster.topic("few"), await cluster.topic("many")
    for producer in range(100, 102):
        assert await send(cluster, clock, few, 0, producer) == 0
    for producer in range(200, 206):
        assert await send(cluster, clock, many, 0, producer) == 0
    assert cluster.node is not None
    await known_producers.bound(cluster.node.partitions.by_key, 5)
    assert known(cluster, few) == {100, 101}
    assert known(cluster, many) == {203, 204, 205}


async def remember(cluster: StorageCluster, name: str, count: int) -> bytes:
    """A topic whose log remembers so many closed producers."""
    topic = await cluster.topic(name)
    entry = ProducerEntry(0, (), -1, 0, NO_OFFSET)
    partition_of(cluster, topic).log.producers.entries.update(dict.fromkeys(range(count), entry))
    return topic


async def test_a_log_that_a_thread_may_cut_is_left_alone_by_the_bound_and_others_do_not_pay_for_it(
    cluster: StorageCluster,
) -> None:
    large, cut, small = [await remember(cluster, name, count) for name, count in (("large", 6), ("cut", 4), ("small", 2))]
    by_key = {(topic, 0): partition_of(cluster, topic) for topic in (large, cut, small)}
    bounding = asyncio.create_task(known_producers.bound(by_key, 3))
    await asyncio.sleep(0)
    assert len(known(cluster, large)) == 0
    del by_key[cut, 0]
    await bounding
    assert (len(known(cluster, cut)), len(known(cluster, small))) == (4, 2)


async def test_a_log_that_a_thread_may_cut_is_left_alone_by_a_running_expiry(cluster: StorageCluster) -> None:
    before, cut, after = [await remember(cluster, name, 3) for name in ("before", "cut", "after")]
    by_key = {(topic, 0): partition_of(cluster, topic) for topic in (before, cut, after)}
    await known_producers.expire(by_key, 0, DAY)
    expiry = asyncio.create_task(known_producers.expire(by_key, DAY, DAY))
    await asyncio.sleep(0)
    del by_key[cut, 0]
    await expiry
    assert [len(known(cluster, topic)) for topic in (before, cut, after)] == [0, 3, 0]


async def test_an_expiry_stops_between_two_turns_at_a_log_that_a_thread_may_cut(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await remember(cluster, "cut", 1000)
    monkeypatch.setattr(producer_state, "LOOKED_AT_AT_ONCE", 1)
    by_key = {(topic, 0): partition_of(cluster, topic)}
    await known_producers.expire(by_key, 0, DAY)
    expiry = asyncio.create_task(known_producers.expire(by_key, DAY, DAY))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    left = known(cluster, topic)
    assert 0 < len(left) < 1000
    del by_key[topic, 0]
    await expiry
    assert known(cluster, topic) == left
