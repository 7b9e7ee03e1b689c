"""A consumer that has read what an unclean election threw away finds out by itself, through OffsetForLeaderEpoch (KIP-320)."""

from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually, rounds

WAIT_S = 60.0


@pytest.fixture
def two() -> Iterator[LocalCluster]:
    with LocalCluster(storage=2) as running:
        yield running


def write(cluster: LocalCluster, topic: str, what: str, count: int) -> None:
    failed: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, f"{what}{number}", on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(WAIT_S) == 0
    assert not failed


def test_librdkafka_detects_that_what_it_read_is_gone(two: LocalCluster, topic: str) -> None:
    admin = Admin(two.bootstrap)
    configs = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true", "durability": "replicated"}
    admin.create(topic, replicas=2, config=configs)

    def state() -> tuple[int, list[int]]:
        partition = admin.client.list_topics(topic, timeout=WAIT_S).topics[topic].partitions[0]
        return partition.leader, sorted(partition.isrs)

    leader, isr = state()
    assert isr == [1, 2]
    follower = 3 - leader
    settings = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": two.bootstrap, **settings})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    read: list[bytes] = []

    def read_to(count: int) -> None:
        for _ in rounds(f"{count} records", within_s=WAIT_S):
            if len(read) >= count:
                return
            for message in consumer.consume(num_messages=100, timeout=0.1):
                assert message.error() is None, message.error()
                read.append(message.value())

    write(two, topic, "kept", 10)
    read_to(10)
    two.kill(f"storage-{follower}")
    eventually(lambda: state() == (leader, [leader]), WAIT_S)
    write(two, topic, "lost", 10)
    read_to(20)
    two.kill(f"storage-{leader}")
    two.start(f"storage-{follower}")
    eventually(lambda: state() == (follower, [follower]), WAIT_S)
    write(two, topic, "new", 30)
    for _ in rounds("the consumer notices", within_s=WAIT_S):
        message = consumer.poll(0.1)
        if message is not None and message.error() is not None:
            assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
            assert "log truncation detected at offset 20" in message.error().str()
            assert "broker end offset is 10" in message.error().str()
            break
        assert message is None, f"read on with {message.value()!r} as if nothing had happened"
    consumer.close()
    admin.close()
