"""A transactional producer of librdkafka, and a reader of what is committed."""

import uuid
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.polling import eventually

WAIT_S = 60.0


def transactional(bootstrap: str, transactional_id: str, **more: object) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 2, **more})
    producer.init_transactions(WAIT_S)
    return producer


def until_done(call: Callable[[float], object]) -> None:
    """Calls a method of a producer until it is not to be called again. Raises KafkaException."""
    while True:
        try:
            call(WAIT_S)
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise
        else:
            return


def read(bootstrap: str, topic: str, count: int, partitions: int = 1, isolation: str = "read_committed") -> list[bytes]:
    """The first `count` records of a topic that a reader sees."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "isolation.level": isolation})
    values: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])

        def enough() -> bool:
            for message in consumer.consume(100, 0.2):
                assert message.error() is None
                values.append(message.value() or b"")
            return len(values) >= count

        eventually(enough, WAIT_S)
    finally:
        consumer.close()
    return values
