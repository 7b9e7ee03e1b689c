"""aiokafka: defaults, idempotence, many partitions, offsets by time."""

import asyncio
import collections

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import MessageSizeTooLargeError

from tests.compat.clients.admin import Admin

WAIT_S = 60.0


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"enable_idempotence": True}, id="idempotent"),
        pytest.param({"acks": 0}, id="acks 0"),
        pytest.param({"acks": "all"}, id="acks all"),
    ],
)
async def test_records_sent_at_once_are_read_from_every_partition_in_order(
    bootstrap: str, admin: Admin, topic: str, settings: dict[str, object]
) -> None:
    await asyncio.to_thread(admin.create, topic, 5)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
        sent = [await producer.send(topic, b"%d" % number, partition=number % 5) for number in range(2_000)]
        await asyncio.wait_for(asyncio.gather(*sent), WAIT_S)
    partitions = [TopicPartition(topic, partition) for partition in range(5)]
    found: dict[int, list[int]] = collections.defaultdict(list)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False) as consumer:
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        async with asyncio.timeout(WAIT_S):
            while sum(map(len, found.values())) < 2_000:
                for where, messages in (await consumer.getmany(timeout_ms=200)).items():
                    found[where.partition] += [int(message.value) for message in messages]
        assert await consumer.end_offsets(partitions) == dict.fromkeys(partitions, 400)
        assert await consumer.beginning_offsets(partitions) == dict.fromkeys(partitions, 0)
    assert found == {partition: list(range(partition, 2_000, 5)) for partition in range(5)}


async def test_offsets_are_found_by_time(bootstrap: str, admin: Admin, topic: str) -> None:
    await asyncio.to_thread(admin.create, topic, 1, {"retention.ms": "-1"})  # the records are older than a week
    where, first = TopicPartition(topic, 0), 1_700_000_000_000
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        sent = [await producer.send(topic, b"v", partition=0, timestamp_ms=first + 10 * number) for number in range(100)]
        await asyncio.gather(*sent)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        for when, offset in ((first - 1, 0), (first + 501, 51), (first + 990, 99)):
            found = (await consumer.offsets_for_times({where: when}))[where]
            assert (found.offset, found.timestamp) == (offset, first + 10 * offset)
        assert (await consumer.offsets_for_times({where: first + 991}))[where] is None


async def test_a_consumer_that_waits_gets_what_is_written_and_small_fetches_give_all(
    bootstrap: str, admin: Admin, topic: str
) -> None:
    await asyncio.to_thread(admin.create, topic)
    where = TopicPartition(topic, 0)
    async with (
        AIOKafkaConsumer(bootstrap_servers=bootstrap, max_partition_fetch_bytes=2_000, fetch_max_bytes=5_000) as consumer,
        AIOKafkaProducer(bootstrap_servers=bootstrap) as producer,
    ):
        consumer.assign([where])
        await consumer.seek_to_beginning(where)
        waiting = asyncio.ensure_future(consumer.getone())
        await producer.send_and_wait(topic, b"first", partition=0)
        assert (await asyncio.wait_for(waiting, WAIT_S)).value == b"first"
        for number in range(50):
            await producer.send(topic, b"%d" % number * 1_000, partition=0)
        await producer.flush()
        found = [(await asyncio.wait_for(consumer.getone(), WAIT_S)).value for _ in range(50)]
        assert found == [b"%d" % number * 1_000 for number in range(50)]


async def test_a_record_that_is_too_large_is_refused_with_the_error_that_says_so(
    bootstrap: str, admin: Admin, topic: str
) -> None:
    await asyncio.to_thread(admin.create, topic, 1, {"max.message.bytes": "10000"})
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(topic, b"x" * 20_000)
        assert (await producer.send_and_wait(topic, b"small")).offset == 0
