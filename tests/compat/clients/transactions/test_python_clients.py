"""Transactions of aiokafka and kafka-python."""

import uuid

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.compat.clients.admin import Admin
from tests.compat.clients.any_roles import (
    commit_and_abort_by_kafka_python,
    commit_positions_by_kafka_python,
    committed_offsets,
)
from tests.compat.clients.transactions.transactional import fill, read


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


async def test_aiokafka_commits_its_position_with_its_results(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 20)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=topic, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    await producer.start()
    await consumer.start()
    try:
        read_so_far = 0
        while read_so_far < 20:
            for partition, messages in (await consumer.getmany(timeout_ms=1000)).items():
                read_so_far += len(messages)
                async with producer.transaction():
                    await producer.send_offsets_to_transaction({partition: messages[-1].offset + 1}, topic)
    finally:
        await consumer.stop()
        await producer.stop()
    assert sum(committed_offsets(bootstrap, topic)) == 20


def test_kafka_python_commits_its_position_with_its_results(bootstrap: str, topic: str) -> None:
    commit_positions_by_kafka_python(bootstrap, topic)


def test_kafka_python_commits_and_aborts(bootstrap: str, topic: str) -> None:
    commit_and_abort_by_kafka_python(bootstrap, topic)
