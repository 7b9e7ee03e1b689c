"""What a cluster serves: every record with its offset, topic ids, configs and committed offsets. Two clusters that serve the same
are equal."""

import hashlib
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigSource, ResourceType

from tests.compat.clients.admin import Admin
from tests.compat.clients.groups.offsets import GroupAdmin
from tests.support.polling import eventually, rounds

QUIET = {"log_level": 0}
GROUP = "billing"


@dataclass(frozen=True)
class PartitionContent:
    """`digest` covers offset, key, value, timestamp and headers of every record, those of open and aborted transactions too."""

    start: int
    end: int
    records: int
    digest: str


@dataclass(frozen=True)
class Content:
    topic_ids: dict[str, str]
    configs: dict[str, dict[str, str]]
    partitions: dict[tuple[str, int], PartitionContent]
    committed: dict[tuple[str, int], int]


def content_of(bootstrap: str, topics: Iterable[str], group: str = GROUP) -> Content:
    admin = Admin(bootstrap)
    names = sorted(topics)
    eventually(lambda: set(names) <= admin.names())
    described = admin.client.describe_topics(TopicCollection(names))
    topic_ids = {name: str(future.result(60).topic_id) for name, future in described.items()}
    configs = {
        name: {
            key: entry.value
            for key, entry in admin.config(ResourceType.TOPIC, name).items()
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }
        for name in names
    }
    partitions = {
        (name, index): partition_content(bootstrap, name, index) for name in names for index in range(admin.partition_count(name))
    }
    return Content(topic_ids, configs, partitions, committed_by(bootstrap, group))


def committed_by(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    with closing(GroupAdmin(bootstrap)) as groups:
        return groups.committed(group)


def partition_content(bootstrap: str, topic: str, index: int, isolation: str = "read_uncommitted") -> PartitionContent:
    """The partition's records up to its end, or with read_committed to its last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": isolation, "enable.auto.commit": False,
            "auto.offset.reset": "error", "enable.partition.eof": True, "check.crcs": True, "fetch.wait.max.ms": 50, **QUIET,
        }
    )  # fmt: skip
    digest, count = hashlib.sha256(), 0
    try:
        start, _ = _watermarks(consumer, topic, index)
        consumer.assign([TopicPartition(topic, index, start)])
        for _ in rounds(f"the end of {topic}-{index}"):
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return PartitionContent(start, message.offset() or 0, count, digest.hexdigest())
            if error is not None:
                assert error.retriable(), error
                continue
            count += 1
            fields = (message.offset(), message.key(), message.value(), message.timestamp(), message.headers())
            digest.update(repr(fields).encode())
    finally:
        consumer.close()
    raise AssertionError("unreachable: rounds() ends by raising")


def _watermarks(consumer: Consumer, topic: str, index: int) -> tuple[int, int]:
    """The log's start and end. A broker that has just started may lead no partition for a moment."""
    for _ in rounds(f"a leader of {topic}-{index}"):
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=60)
        except KafkaException as refusal:
            if not refusal.args[0].retriable() and refusal.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            consumer.poll(0.1)
    raise AssertionError("unreachable: rounds() ends by raising")


def produce(bootstrap: str, topic: str, numbers: Iterable[int], partitions: int, keys: int = 1 << 30) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.codec": "lz4", **QUIET})
    for number in numbers:
        headers = [("number", b"%d" % number)]
        producer.produce(topic, b"value %d" % number, b"key %d" % (number % keys), partition=number % partitions, headers=headers)
    assert producer.flush(60) == 0


def commit(bootstrap: str, offsets: dict[tuple[str, int], int], group: str = GROUP) -> None:
    """Commits as a consumer without members does. A coordinator that has just begun may say to come again."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, **QUIET})
    wanted = [TopicPartition(topic, index, offset) for (topic, index), offset in offsets.items()]
    try:
        for _ in rounds("a coordinator that takes a commit"):
            try:
                consumer.commit(offsets=wanted, asynchronous=False)
                return
            except KafkaException as refusal:
                if refusal.args[0].code() not in (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS):
                    raise
                consumer.poll(0.1)
    finally:
        consumer.close()
