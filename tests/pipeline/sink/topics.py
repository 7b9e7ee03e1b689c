"""Topics of tests: made, filled, and read as a read_committed consumer does."""

from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from libs.wire.record_batches.records import Record
from tests.support.polling import eventually

READ_WITHIN_S = 60.0


class PlacedRecord(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


def fill_topic(bootstrap: str, name: str, records: Sequence[Record]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "partitioner": "murmur2_random"})
    for record in records:
        headers = list(record.headers) or None
        producer.produce(name, record.value, record.key, timestamp=record.timestamp, headers=headers)
        producer.poll(0)
    assert producer.flush(60) == 0


def read_topic(bootstrap: str, name: str) -> list[PlacedRecord]:
    """All committed records, by partition and offset. Transactions whose end is still on its way are waited for."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    places = [TopicPartition(name, partition) for partition in admin.list_topics(name, READ_WITHIN_S).topics[name].partitions]
    committed, written = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
    eventually(lambda: _ends(admin, places, committed) == _ends(admin, places, written), READ_WITHIN_S)
    config = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer(config | {"auto.offset.reset": "earliest", "enable.auto.commit": False, "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(name, place.partition, 0) for place in places])
        return sorted(_read_to_ends(consumer, {place.partition for place in places}))
    finally:
        consumer.close()


def _ends(admin: AdminClient, places: Sequence[TopicPartition], isolation: IsolationLevel) -> list[int]:
    asked = {place: OffsetSpec.latest() for place in places}
    return [answer.result(READ_WITHIN_S).offset for answer in admin.list_offsets(asked, isolation_level=isolation).values()]


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
