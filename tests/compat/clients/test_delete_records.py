"""Deleting records with real clients, and what the others see of it."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.compat.clients.admin import Admin, code_of
from tests.compat.kafka.tools import run_kcat, run_tool


def fill(bootstrap: str, topic: str, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, f"{partition}-{number}", partition=partition)
    assert producer.flush(30) == 0


def read(bootstrap: str, topic: str, partition: int) -> list[str]:
    found = run_kcat("-b", bootstrap, "-C", "-t", topic, "-p", str(partition), "-o", "beginning", "-e", "-q", "-f", "%o:%s\n")
    return found.text.split()


def test_kafkas_own_tool_deletes_and_says_where_the_logs_start(bootstrap: str, admin: Admin, topic: str, tmp_path: Path) -> None:
    admin.create(topic, 2)
    for partition in (0, 1):
        fill(bootstrap, topic, partition, 5)
    wanted = [{"topic": topic, "partition": 0, "offset": 3}, {"topic": topic, "partition": 1, "offset": -1}]
    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps({"version": 1, "partitions": wanted}), encoding="utf-8")
    said = run_tool("kafka-delete-records", "--bootstrap-server", bootstrap, "--offset-json-file", str(offsets)).text
    assert f"partition: {topic}-0\tlow_watermark: 3" in said
    assert f"partition: {topic}-1\tlow_watermark: 5" in said
    assert read(bootstrap, topic, 0) == ["3:0-3", "4:0-4"]
    assert read(bootstrap, topic, 1) == []
    found = run_tool("kafka-get-offsets", "--bootstrap-server", bootstrap, "--topic", topic, "--time", "earliest").text
    assert sorted(found.split()) == [f"{topic}:0:3", f"{topic}:1:5"]


def test_librdkafka_deletes_and_its_consumer_starts_behind(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic)
    fill(bootstrap, topic, 0, 5)
    (done,) = admin.client.delete_records([TopicPartition(topic, 0, 2)]).values()
    assert done.result().low_watermark == 2
    (done,) = admin.client.delete_records([TopicPartition(topic, 0, 6)]).values()
    with pytest.raises(KafkaException) as refused:
        done.result()
    assert code_of(refused.value) == KafkaError.OFFSET_OUT_OF_RANGE
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False, "auto.offset.reset": "error"}
    )
    try:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (2, 5)
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
        consumer.assign([TopicPartition(topic, 0, 2)])
        assert [message.value() for message in consumer.consume(3, timeout=60)] == [b"0-2", b"0-3", b"0-4"]
    finally:
        consumer.close()
