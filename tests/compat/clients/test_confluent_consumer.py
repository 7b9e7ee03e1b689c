"""librdkafka's consumer on assigned partitions: limits, long polls, offsets by time, resets, many partitions."""

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from tests.compat.clients.admin import Admin
from tests.compat.clients.any_roles import PARTITIONS, read_fifty_partitions_by_librdkafka
from tests.compat.clients.five_clients import consume
from tests.support.polling import rounds

WAIT_S = 60.0


def produce(bootstrap: str, topic: str, values: list[bytes], *, timestamps: list[int] | None = None, **settings: object) -> None:
    """To partition 0."""
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    failures: list[str] = []
    for number, value in enumerate(values):
        when = {"timestamp": timestamps[number]} if timestamps else {}
        producer.produce(
            topic, value, partition=0, on_delivery=lambda error, message: failures.append(str(error)) if error else None, **when
        )
    assert producer.flush(WAIT_S) == 0
    assert not failures


def open_consumer(bootstrap: str, **settings: object) -> Consumer:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, **named})


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"max_partition_fetch_bytes": 1_000}, id="a partition's share is smaller than a batch"),
        pytest.param({"fetch_max_bytes": 1_000_000, "message_max_bytes": 1_000_000}, id="an answer holds few batches"),
        pytest.param({"fetch_min_bytes": 5_000_000, "fetch_wait_max_ms": 200}, id="more is asked for than there is"),
        pytest.param({"check_crcs": True, "isolation_level": "read_uncommitted"}, id="checksums are checked"),
    ],
)
def test_all_records_arrive_in_order_whatever_the_consumers_limits(
    bootstrap: str, admin: Admin, topic: str, limits: dict[str, object]
) -> None:
    admin.create(topic)
    values = [b"%d " % number * 500 for number in range(1_500)]
    produce(bootstrap, topic, values)
    assert [message.value() for message in consume(bootstrap, topic, len(values), **limits)] == values


def test_a_record_larger_than_the_fetch_limits_still_arrives(bootstrap: str, admin: Admin, topic: str) -> None:
    """KIP-74: the first batch is always given, however small the limits."""
    admin.create(topic)
    produce(bootstrap, topic, [b"x" * 900_000, b"after"])
    assert len(consume(bootstrap, topic, 2, max_partition_fetch_bytes=100)[0].value()) == 900_000


def test_a_consumer_at_the_end_gets_a_record_when_it_is_written(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic)
    produce(bootstrap, topic, [b"old"])
    consumer = open_consumer(bootstrap, fetch_wait_max_ms=12_000, enable_partition_eof=True)
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    for _ in rounds("the end of the partition is reached"):
        message = consumer.poll(1)
        if message is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            break
    produce(bootstrap, topic, [b"new"])
    for _ in rounds("the new record arrives", within_s=9):  # before the long poll would have ended by itself
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            assert (message.offset(), message.value()) == (1, b"new")
            break
    consumer.close()  # which waits for the next long poll


def test_a_consumer_begins_where_its_offset_says_and_resets_when_it_is_out_of_range(
    bootstrap: str, admin: Admin, topic: str
) -> None:
    admin.create(topic)
    produce(bootstrap, topic, [b"%d" % number for number in range(100)])
    consumer = open_consumer(bootstrap, auto_offset_reset="earliest")
    for asked, first in ((40, 40), (99, 99), (5_000, 0)):
        consumer.assign([TopicPartition(topic, 0, asked)])
        for _ in rounds(f"a record from offset {asked}"):
            message = consumer.poll(1)
            if message is not None:
                assert (message.error(), message.offset()) == (None, first)
                break
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S) == (0, 100)
    consumer.close()


def test_offsets_are_found_by_time(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic, 1, {"retention.ms": "-1"})  # the records are older than a week
    first = 1_700_000_000_000
    timestamps = [first + 1_000 * number for number in range(200)]
    produce(bootstrap, topic, [b"%d" % number for number in range(200)], timestamps=timestamps, **{"batch.num.messages": 1})
    consumer = open_consumer(bootstrap)
    for when, offset in ((0, 0), (first, 0), (first + 1, 1), (timestamps[120], 120), (timestamps[199], 199)):
        found = consumer.offsets_for_times([TopicPartition(topic, 0, when)], timeout=WAIT_S)
        assert [where.offset for where in found] == [offset], when
    assert consumer.offsets_for_times([TopicPartition(topic, 0, timestamps[199] + 1)], timeout=WAIT_S)[0].offset == OFFSET_END
    consumer.close()
    where = TopicPartition(topic, 0)
    for spec, offset in ((OffsetSpec.earliest(), 0), (OffsetSpec.latest(), 200), (OffsetSpec.max_timestamp(), 199)):
        assert admin.client.list_offsets({where: spec})[where].result().offset == offset


def test_one_consumer_reads_fifty_partitions(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic, partitions=PARTITIONS)
    read_fifty_partitions_by_librdkafka(bootstrap, topic)


def test_a_hundred_small_topics_are_made_by_one_request_and_all_serve(bootstrap: str, admin: Admin, topic: str) -> None:
    names = [f"{topic[-60:]}-{number}" for number in range(100)]
    admin.create_all([NewTopic(name, 1) for name in names])
    producer = Producer({"bootstrap.servers": bootstrap})
    for name in names:
        producer.produce(name, name.encode())
    assert producer.flush(WAIT_S) == 0
    consumer = open_consumer(bootstrap)
    consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING) for name in names])
    found = {}
    for _ in rounds("a record of each"):
        for message in consumer.consume(num_messages=100, timeout=0.2):
            assert message.error() is None
            found[message.topic()] = message.value().decode()
        if len(found) == 100:
            break
    consumer.close()
    assert found == {name: name for name in names}
    for outcome in admin.client.delete_topics(names).values():
        outcome.result()
