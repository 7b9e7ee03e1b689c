"""Kafka's own tools and Java's producer (`transaction.version` 2: leaders add partitions, and each transaction has an epoch)."""

import re
import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from libs.coordinator.core.shard_hashing import shard_of
from tests.compat.clients.admin import Admin
from tests.compat.clients.transactions.transactional import read, transactional
from tests.compat.kafka.tools import run_tool
from tests.support.polling import eventually

WAIT_S = 60.0
RECORDS = 2000


@pytest.fixture
def topic(admin: Admin) -> str:
    name = f"tools-{uuid.uuid4().hex[:8]}"
    admin.create(name, partitions=2)
    return name


def tool(bootstrap: str, *arguments: str, check: bool = True) -> str:
    return run_tool("kafka-transactions", "--bootstrap-server", bootstrap, *arguments, check=check).text


def table(text: str) -> list[dict[str, str]]:
    """The rows of a tool's table."""
    lines = [re.split(r"\s*\t\s*|\s{2,}", line.strip()) for line in text.splitlines() if line.strip()]
    return [dict(zip(lines[0], line, strict=False)) for line in lines[1:]]


def test_javas_producer_commits_many_transactions(bootstrap: str, topic: str) -> None:
    run_tool(
        "kafka-producer-perf-test",
        "--bootstrap-server",
        bootstrap,
        *("--topic", topic, "--num-records", str(RECORDS), "--record-size", "100", "--throughput", "1000"),
        *("--transactional-id", topic, "--transaction-duration-ms", "100"),
    )
    assert len(read(bootstrap, topic, RECORDS, 2)) == RECORDS
    (described,) = table(tool(bootstrap, "describe", "--transactional-id", topic))
    assert described["TransactionState"] == "CompleteCommit"
    assert int(described["ProducerEpoch"]) > 10, "each transaction raised it"


def test_operators_list_and_describe_transactions(bootstrap: str, topic: str) -> None:
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    for index in range(2):
        producer.produce(topic, "x", partition=index)
    producer.flush(WAIT_S)
    listed = {row["TransactionalId"]: row["TransactionState"] for row in table(tool(bootstrap, "list"))}
    assert listed[topic] == "Ongoing"
    (described,) = table(tool(bootstrap, "describe", "--transactional-id", topic))
    assert described["TransactionState"] == "Ongoing"
    assert {f"{topic}-0", f"{topic}-1"} == set(described["TopicPartitions"].split(","))
    producer.commit_transaction(WAIT_S)
    missing = tool(bootstrap, "describe", "--transactional-id", f"{topic}-nobody", check=False)
    assert "CompleteCommit" not in missing


def test_an_operator_aborts_what_a_producer_left_open(bootstrap: str, topic: str) -> None:
    """By the partition's leader alone, as for a transaction that no coordinator knows."""
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    producer.produce(topic, "left open", partition=0)
    producer.flush(WAIT_S)
    plain = Producer({"bootstrap.servers": bootstrap})
    plain.produce(topic, "behind it", partition=0)
    plain.flush(WAIT_S)
    (open_producer,) = table(tool(bootstrap, "describe-producers", "--topic", topic, "--partition", "0"))
    assert open_producer["CurrentTransactionStartOffset"] == "0"
    tool(bootstrap, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert read(bootstrap, topic, 1) == [b"behind it"]


def test_an_operator_aborts_offsets_that_a_producer_left_open(bootstrap: str, topic: str) -> None:
    producer = transactional(bootstrap, topic)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "isolation.level": "read_committed"})
    try:
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], consumer.consumer_group_metadata(), WAIT_S)
        shard = ("--topic", "__consumer_offsets", "--partition", str(shard_of(topic, 50)))
        (open_producer,) = [
            row
            for row in table(tool(bootstrap, "describe-producers", *shard))
            if row["CurrentTransactionStartOffset"] not in ("None", "-1")
        ]
        tool(bootstrap, "abort", *shard, "--start-offset", open_producer["CurrentTransactionStartOffset"])
        (committed,) = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
        assert committed.offset < 0, "nothing was committed, and nothing is pending"
    finally:
        consumer.close()


def test_an_old_transaction_is_found(bootstrap: str, topic: str) -> None:
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    producer.produce(topic, "x", partition=0)
    producer.flush(WAIT_S)
    longer_than = ("list", "--duration-filter", "1")
    eventually(lambda: topic in {row["TransactionalId"] for row in table(tool(bootstrap, *longer_than))}, WAIT_S)
    assert topic not in tool(bootstrap, "list", "--duration-filter", "3600000", "--transactional-id-pattern", topic)
    producer.abort_transaction(WAIT_S)
