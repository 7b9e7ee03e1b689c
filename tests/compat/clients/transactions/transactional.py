"""A transactional producer of librdkafka, a consumer that copies in transactions, and a reader of what is committed."""

import uuid
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.polling import eventually

WAIT_S = 60.0


KEEPS_BROKERS = {"metadata.recovery.strategy": "none"}
"""Otherwise librdkafka 2.16 bootstraps anew where all brokers are down at once, forgets its brokers, and may wait for the former
group coordinator for ever (librdkafka #5511, #5456)."""


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


def opened_amid_faults(bootstrap: str, transactional_id: str, **more: object) -> Producer:
    """A producer that goes on trying until it has a producer id."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0, **more})
    until_done(producer.init_transactions)
    return producer


def rewind(consumer: Consumer) -> None:
    """Goes back to the committed offsets. Raises KafkaException."""
    for partition in consumer.committed(consumer.assignment(), WAIT_S):
        consumer.seek(TopicPartition(partition.topic, partition.partition, max(partition.offset, 0)))


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


def fill(bootstrap: str, topic: str, count: int, in_a_batch: int = 10_000) -> None:
    """Writes the numbers from 0 on, spread over the topic's partitions, at most so many in a record batch."""
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": in_a_batch})
    for number in range(count):
        producer.produce(topic, str(number), str(number))
    assert producer.flush(WAIT_S) == 0


class Copy:
    """Copies a topic to another. Each transaction has some records and the position behind them."""

    def __init__(self, bootstrap: str, source: str, target: str, **consumer: object) -> None:
        self.copied = 0
        self._target = target
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{source}-copy",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                **consumer,
            }
        )
        self._consumer.subscribe([source])
        self._producer = transactional(bootstrap, f"{source}-copy", **KEEPS_BROKERS)

    def begin(self) -> list[bytes]:
        """Begins a transaction with the next records. Returns them."""
        found: list[bytes] = []

        def some() -> bool:
            for message in self._consumer.consume(20, 0.2):
                assert message.error() is None, message.error()
                found.append(message.value() or b"")
            return bool(found)

        eventually(some, WAIT_S)
        self._producer.begin_transaction()
        for value in found:
            self._producer.produce(self._target, value, value)
        return found

    def commit(self) -> None:
        """Raises KafkaException."""
        position = self._consumer.position(self._consumer.assignment())
        metadata = self._consumer.consumer_group_metadata()
        until_done(lambda wait_s: self._producer.send_offsets_to_transaction(position, metadata, wait_s))
        until_done(self._producer.commit_transaction)

    def abort(self) -> None:
        """The records come again."""
        until_done(self._producer.abort_transaction)
        rewind(self._consumer)

    def close(self) -> None:
        self._consumer.close()
