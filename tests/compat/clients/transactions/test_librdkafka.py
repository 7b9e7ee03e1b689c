"""Transactions of librdkafka (`transaction.version` 0: it adds partitions itself, and keeps its epoch)."""

import itertools
import uuid

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.compat.clients.admin import Admin
from tests.compat.clients.any_roles import commit_and_abort_by_librdkafka
from tests.compat.clients.transactions.transactional import WAIT_S, Copy, fill, read, transactional


@pytest.fixture
def topic(admin: Admin) -> str:
    name = f"transactions-{uuid.uuid4().hex[:8]}"
    admin.create(name, partitions=2)
    return name


def test_readers_of_committed_records_see_a_transaction_once_it_is_committed(bootstrap: str, topic: str) -> None:
    commit_and_abort_by_librdkafka(bootstrap, topic)


def test_the_next_producer_with_the_id_aborts_what_the_last_one_left(bootstrap: str, topic: str) -> None:
    zombie = transactional(bootstrap, topic)
    zombie.begin_transaction()
    zombie.produce(topic, "of the zombie", partition=0)
    zombie.flush(WAIT_S)
    successor = transactional(bootstrap, topic)
    successor.begin_transaction()
    successor.produce(topic, "of its successor", partition=0)
    successor.commit_transaction(WAIT_S)
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(WAIT_S)
    assert fenced.value.args[0].fatal()
    assert read(bootstrap, topic, 1) == [b"of its successor"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_commits_its_position_with_its_results(bootstrap: str, topic: str, admin: Admin, protocol: str) -> None:
    results = f"{topic}-results"
    admin.create(results, partitions=2)
    fill(bootstrap, topic, 300)
    copy = Copy(bootstrap, topic, results, **{"group.protocol": protocol})
    try:
        for number in itertools.count(1):
            values = copy.begin()
            if number % 4 == 0:
                copy.abort()
            else:
                copy.commit()
                copy.copied += len(values)
            if copy.copied >= 300:
                break
    finally:
        copy.close()
    assert sorted(int(value) for value in read(bootstrap, results, 300, 2)) == list(range(300))


def test_offsets_of_an_open_transaction_are_waited_for(bootstrap: str, topic: str) -> None:
    """librdkafka asks for stable offsets where it reads committed records."""
    fill(bootstrap, topic, 10)
    producer = transactional(bootstrap, topic)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "isolation.level": "read_committed"})
    try:
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, 5)], consumer.consumer_group_metadata(), WAIT_S)
        with pytest.raises(KafkaException) as unstable:
            consumer.committed([TopicPartition(topic, 0)], 1.0)
        assert unstable.value.args[0].code() in (KafkaError._TIMED_OUT, KafkaError.UNSTABLE_OFFSET_COMMIT)
        producer.commit_transaction(WAIT_S)
        (committed,) = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
        assert committed.offset == 5
    finally:
        consumer.close()


def test_many_transactions_one_after_the_other(bootstrap: str, topic: str) -> None:
    producer = transactional(bootstrap, topic)
    for number in range(50):
        producer.begin_transaction()
        producer.produce(topic, str(number), partition=number % 2)
        if number % 5:
            producer.commit_transaction(WAIT_S)
        else:
            producer.flush(WAIT_S)
            producer.abort_transaction(WAIT_S)
    assert sorted(int(value) for value in read(bootstrap, topic, 40, 2)) == [n for n in range(50) if n % 5]


def test_a_transaction_that_takes_too_long_is_aborted(bootstrap: str, topic: str) -> None:
    producer = transactional(bootstrap, topic, **{"transaction.timeout.ms": 2000})
    producer.begin_transaction()
    producer.produce(topic, "late", partition=0)
    producer.flush(WAIT_S)
    other = transactional(bootstrap, f"{topic}-other")
    other.begin_transaction()
    other.produce(topic, "in time", partition=0)
    other.commit_transaction(WAIT_S)
    assert read(bootstrap, topic, 1) == [b"in time"], "the reader waits until the first transaction has ended"
    with pytest.raises(KafkaException):
        producer.commit_transaction(WAIT_S)
