"""Topics of tests: made, filled, and read as a read_committed consumer does."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from libs.wire.record_batches.records import Record

READ_WITHIN_S = 60.0


class PlacedRecord(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


def create_topic(bootstrap: str, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
    """Records stay, however old their timestamps are."""
    topic = NewTopic(name, partitions, config={"retention.ms": "-1", **(config or {})})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_topics([topic]).values()
    created.result(60)


def fill_topic(bootstrap: str, name: str, records: Sequence[Record]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "partitioner": "murmur2_random"})
    for record in records:
        headers = list(record.headers) or None
        producer.produce(name, record.value, record.key, timestamp=record.timestamp, headers=headers)
        producer.poll(0)
    assert producer.flush(60) == 0


def read_topic(bootstrap: str, name: str) -> list[PlacedRecord]:
    """All committed records up to the last stable offset of now, by partition and offset."""
    config = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer(config | {"auto.offset.reset": "earliest", "enable.auto.commit": False, "enable.partition.eof": True})
    try:
        partitions = list(consumer.list_topics(name, READ_WITHIN_S).topics[name].partitions)
        consumer.assign([TopicPartition(name, partition, 0) for partition in partitions])
        return sorted(_read_to_ends(consumer, set(partitions)))
    finally:
        consumer.close()


def _read_to_ends(consumer: Consumer, open_partitions: set[int]) -> list[PlacedRecord]:
    records = []
    while open_partitions:
        message = consumer.poll(READ_WITHIN_S)
        assert message is not None, f"partitions {open_partitions} are silent"
        if message.error() is not None:
            assert message.error().name() == "_PARTITION_EOF", message.error()
            open_partitions.discard(message.partition())
            continue
        headers = tuple((name, content) for name, content in message.headers() or ())
        place = (message.partition(), message.offset())
        records.append(PlacedRecord(*place, message.key(), message.value(), message.timestamp()[1], headers))
    return records
