"""Transactions of aiokafka and kafka-python."""

import uuid

import pytest
from aiokafka import AIOKafkaProducer

from tests.compat.clients.admin import Admin
from tests.compat.clients.kafka_python import KafkaProducer
from tests.compat.clients.transactions.transactional import read


@pytest.fixture
def topic(admin: Admin) -> str:
    name = f"python-{uuid.uuid4().hex[:8]}"
    admin.create(name, partitions=2)
    return name


async def test_aiokafka_commits_and_aborts(bootstrap: str, topic: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    await producer.start()
    try:
        for number in range(6):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, str(number).encode(), partition=number % 2)
            if number % 3:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
    finally:
        await producer.stop()
    assert sorted(read(bootstrap, topic, 4, 2)) == [b"1", b"2", b"4", b"5"]


def test_kafka_python_commits_and_aborts(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), transactional_id=topic)
    try:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            producer.send(topic, str(number).encode(), partition=number % 2)
            if number % 3:
                producer.commit_transaction()
            else:
                producer.flush()
                producer.abort_transaction()
    finally:
        producer.close()
    assert sorted(read(bootstrap, topic, 4, 2)) == [b"1", b"2", b"4", b"5"]
