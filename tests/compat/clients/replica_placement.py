"""Topics with replicas on chosen brokers, and kafka-reassign-partitions."""

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from tests.compat.clients.admin import Admin
from tests.compat.kafka.tools import ToolResult, run_tool

Layout = dict[int, list[int]]


def layout(admin: Admin, topic: str) -> Layout:
    return {index: list(p.replicas) for index, p in admin.client.list_topics(topic, timeout=60).topics[topic].partitions.items()}


def reassign(bootstrap: str, *arguments: str, check: bool = True) -> ToolResult:
    return run_tool("kafka-reassign-partitions", "--bootstrap-server", bootstrap, *arguments, check=check)


def place(admin: Admin, topic: str, wanted: list[list[int]]) -> None:
    admin.create_all([NewTopic(topic, len(wanted), replica_assignment=wanted)])


def fill(bootstrap: str, topic: str, count: int, *, partitions: int = 1) -> None:
    """Numbers, one partition after the other."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, f"{number}", partition=number % partitions)
    assert producer.flush(60) == 0
