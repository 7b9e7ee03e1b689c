"""kafka-python: whatever protocol level it believes in, and its admin client."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.compat.clients.admin import Admin
from tests.compat.clients.any_roles import store_a_record_by_kafka_python
from tests.compat.clients.five_clients import Record, consume
from tests.compat.clients.kafka_python import (
    ConfigResource,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetSpec,
    TopicPartition,
    errors,
)
from tests.support.polling import rounds

WAIT_S = 60.0


@pytest.fixture
def opened(bootstrap: str) -> Iterator[Callable[..., Any]]:
    """`opened(KafkaProducer, …)`: closed at the end, whatever happens. One that stays open logs without end."""
    with ExitStack() as stack:

        def open_one(kind: type[Any], *arguments: str, **settings: object) -> Any:
            return stack.enter_context(closing(kind(*arguments, bootstrap_servers=bootstrap, **settings)))

        yield open_one


@pytest.mark.parametrize(
    "api_version", [None, (2, 1), (2, 8), (3, 9), (4, 0)], ids=lambda v: "found out" if v is None else str(v)
)
def test_records_are_written_and_read_at_every_level_of_the_protocol(
    opened: Callable[..., Any], admin: Admin, topic: str, api_version: tuple[int, ...] | None
) -> None:
    admin.create(topic, partitions=2)
    producer = opened(KafkaProducer, api_version=api_version)
    sent = [producer.send(topic, b"%d" % number, key=b"%d" % (number % 7)) for number in range(1_000)]
    placed = [future.get(timeout=WAIT_S) for future in sent]
    consumer = opened(KafkaConsumer, group_id=None, api_version=api_version, enable_auto_commit=False)
    partitions = [TopicPartition(topic, partition) for partition in (0, 1)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    found: dict[tuple[int, int], bytes] = {}
    for _ in rounds("1,000 records"):
        for where, messages in consumer.poll(timeout_ms=200).items():
            found.update({(where.partition, message.offset): message.value for message in messages})
        if len(found) == 1_000:
            break
    assert consumer.beginning_offsets(partitions) == dict.fromkeys(partitions, 0)
    assert sum(consumer.end_offsets(partitions).values()) == 1_000
    assert found == {(where.partition, where.offset): b"%d" % number for number, where in enumerate(placed)}


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_setting_stores_the_record(bootstrap: str, admin: Admin, topic: str, acks: int | str) -> None:
    admin.create(topic)
    store_a_record_by_kafka_python(bootstrap, topic, acks)


def test_offsets_are_found_by_time(opened: Callable[..., Any], admin: Admin, topic: str) -> None:
    admin.create(topic, 1, {"retention.ms": "-1"})  # the records are older than a week
    where, first = TopicPartition(topic, 0), 1_700_000_000_000
    producer = opened(KafkaProducer, linger_ms=100)
    for future in [producer.send(topic, b"v", timestamp_ms=first + 10 * number) for number in range(100)]:
        future.get(timeout=WAIT_S)
    consumer = opened(KafkaConsumer, group_id=None)
    for when, offset in ((first - 1, 0), (first + 501, 51), (first + 990, 99)):
        found = consumer.offsets_for_times({where: when})[where]
        assert (found.offset, found.timestamp) == (offset, first + 10 * offset)
    assert consumer.offsets_for_times({where: first + 991})[where] is None


def test_topics_are_made_described_grown_and_deleted(bootstrap: str, topic: str) -> None:
    with KafkaAdminClient(bootstrap_servers=bootstrap) as client:
        client.create_topics({topic: {"num_partitions": 3, "configs": {"retention.ms": "90000000"}}})
        client.wait_for_topics([topic])
        (described,) = client.describe_topics([topic])
        assert [partition["partition_index"] for partition in described["partitions"]] == [0, 1, 2]
        (by_id,) = client.describe_topics([uuid.UUID(str(described["topic_id"]))])
        assert by_id["name"] == topic
        client.create_partitions({topic: 4})
        client.wait_for_topics([topic])
        (paged,) = client.describe_topic_partitions([topic])["topics"]
        assert len(paged["partitions"]) == 4
        where = TopicPartition(topic, 0)
        (found,) = client.list_partition_offsets({where: OffsetSpec.LATEST}).values()
        assert found.offset == 0
        with pytest.raises(errors.TopicAlreadyExistsError):
            client.create_topics([topic])
        client.delete_topics([topic])
        assert topic not in client.list_topics()
        with pytest.raises(errors.UnknownTopicOrPartitionError):
            client.delete_topics([topic])


def test_a_brokers_config_is_set_shown_and_reset(bootstrap: str) -> None:
    name = "log.retention.ms"

    def shown() -> dict[str, object]:
        return client.describe_configs([ConfigResource("broker", "3", {name: None})], config_filter="all")["broker"]["3"][name]

    with KafkaAdminClient(bootstrap_servers=bootstrap) as client:
        changed = ConfigResource("broker", "3", {name: "700000000"})
        client.alter_configs([changed])
        try:
            assert shown()["value"] == "700000000"
        finally:
            client.reset_configs([changed])
        assert shown()["config_source"] != "DYNAMIC_BROKER_CONFIG"


def test_the_cluster_is_described(bootstrap: str) -> None:
    with KafkaAdminClient(bootstrap_servers=bootstrap) as client:
        described = client.describe_cluster()
    assert {broker["broker_id"] for broker in described["brokers"]} == {1, 2, 3}
    assert described["controller_id"] in {1, 2, 3}


def test_a_record_with_everything_is_seen_by_librdkafka(
    bootstrap: str, opened: Callable[..., Any], admin: Admin, topic: str
) -> None:
    admin.create(topic, 1, {"retention.ms": "-1"})  # the record is older than a week
    record = Record("ключ".encode(), b"value", (("a", b"1"), ("a", b"")))
    producer = opened(KafkaProducer)
    producer.send(topic, record.value, record.key, headers=list(record.headers), timestamp_ms=1_700_000_000_123).get(
        timeout=WAIT_S
    )
    (message,) = consume(bootstrap, topic, 1)
    assert Record(message.key(), message.value(), tuple(message.headers())) == record
    assert message.timestamp()[1] == 1_700_000_000_123
