"""What the tests do with a cluster, by confluent-kafka."""

from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.support.polling import rounds

WAIT_S = 30.0


def create_topic(bootstrap_servers: str, name: str, partitions: int = 1, **configs: str) -> None:
    topic = NewTopic(name, partitions, config={key.replace("_", "."): value for key, value in configs.items()})
    client = administrator(bootstrap_servers)
    client.create_topics([topic])[name].result(WAIT_S)


def administrator(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers})


def topic_config(bootstrap_servers: str, topic: str, name: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    client = administrator(bootstrap_servers)
    return str(client.describe_configs([resource])[resource].result(WAIT_S)[name].value)


def produce(bootstrap_servers: str, topic: str, values: list[bytes]) -> None:
    """Returns when all are acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    failed: list[KafkaError] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error is not None else None)
    assert producer.flush(WAIT_S) == 0
    assert not failed


def transactional_producer(bootstrap_servers: str, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id})
    producer.init_transactions(WAIT_S)
    return producer


def consume(bootstrap_servers: str, topic: str, count: int, *, group: str = "readers", **configs: Any) -> list[bytes]:
    """The values of the next `count` records that a group reads, which are then committed."""
    given = {key.replace("_", "."): value for key, value in configs.items()}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest", **given})
    consumer.subscribe([topic])
    values: list[bytes] = []
    for _ in rounds(f"{count} records of {topic}", WAIT_S):
        message: Message | None = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            values.append(message.value())
        if len(values) == count:
            break
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


def record_count(bootstrap_servers: str, topic: str) -> int:
    """The records of a topic with one partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "counters"})
    first, last = consumer.get_watermark_offsets(TopicPartition(topic, 0), WAIT_S)
    consumer.close()
    return int(last - first)


def settings_in(file: Path) -> dict[str, str]:
    """Of a file in the format of Java or librdkafka that the cluster wrote."""
    return dict(line.split("=", 1) for line in file.read_text(encoding="utf-8").splitlines())
