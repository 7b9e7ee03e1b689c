"""A reader of a topic to its end. It stops at no number of records, so it sees duplicates."""

import uuid

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.support.polling import rounds

BATCH = 1000
WAIT_S = 0.1
Record = tuple[str | None, str]
"""Its key and its value."""


class TopicReader:
    """`records` has what it has read of each partition, `behind` the offset behind that. Use as a context manager."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, isolation: str = "read_committed") -> None:
        self.records: list[list[Record]] = [[] for _ in range(partitions)]
        self.behind = [0] * partitions
        self._is_at_end = [False] * partitions
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": uuid.uuid4().hex,
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])

    @property
    def count(self) -> int:
        return sum(map(len, self.records))

    def poll(self, wait_s: float = 0.0) -> None:
        for message in self._consumer.consume(BATCH, wait_s):
            self._hear(message)

    def read_to_end(self) -> list[list[Record]]:
        """All that the topic holds, by partition."""
        for _ in rounds("the topic's end"):
            if all(self._is_at_end):
                return self.records
            self.poll(WAIT_S)
        raise AssertionError("unreachable: rounds() ends by raising")

    def _hear(self, message: Message) -> None:
        partition, error = message.partition(), message.error()
        assert partition is not None
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
        else:
            key, value, offset = message.key(), message.value(), message.offset()
            assert value is not None
            assert offset is not None
            self.behind[partition] = offset + 1
            self.records[partition].append((None if key is None else key.decode(), value.decode()))
        self._is_at_end[partition] = error is not None

    def __enter__(self) -> "TopicReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
