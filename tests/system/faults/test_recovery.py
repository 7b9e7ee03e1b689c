"""A storage node is killed with much to read in several partitions: child processes read it, and nothing is missing."""

import os
import re
from collections.abc import Iterator
from hashlib import sha256

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster

PARTITIONS = 3
RECORDS = 80
RECORD_BYTES = 400_000


@pytest.fixture
def alone() -> Iterator[LocalCluster]:
    """One storage node, which a test may kill."""
    with LocalCluster() as running:
        yield running


def test_acknowledged_records_are_read_back_by_child_processes(alone: LocalCluster) -> None:
    cluster, topic = alone, "much"
    Admin(cluster.bootstrap).create(topic, PARTITIONS)
    acknowledged: dict[tuple[int, int], bytes] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert isinstance(value, bytes)
        acknowledged[partition, offset] = sha256(value).digest()

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})
    for number in range(RECORDS * PARTITIONS):
        producer.produce(topic, os.urandom(RECORD_BYTES), partition=number % PARTITIONS, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert len(acknowledged) == RECORDS * PARTITIONS
    del producer
    before = len(cluster.log("storage-1"))
    cluster.restart("storage-1", 9)
    log_lines = cluster.log("storage-1")[before:]

    [summary] = re.findall(r"recovery processes are done.*?\blogs=(\d+).*?read_mib=(\d+)", log_lines)
    assert int(summary[0]) == PARTITIONS
    assert int(summary[1]) > 64
    assert len(re.findall(rf"recovered.*{topic}-\d.*cut=0", log_lines)) == PARTITIONS

    consumer = Consumer({
        "bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "error",
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: dict[tuple[int, int], bytes] = {}
    while len(found) < len(acknowledged):
        message = consumer.poll(30)
        assert message is not None, f"{len(found)} of {len(acknowledged)}"
        assert message.error() is None
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert isinstance(value, bytes)
        found[partition, offset] = sha256(value).digest()
    consumer.close()
    assert found == acknowledged
