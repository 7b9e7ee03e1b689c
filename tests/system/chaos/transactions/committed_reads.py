"""Reads of committed transfers, from the beginning to where the partitions end at that moment, again and again.

The two markers of a transaction are written one after the other, so a partition's end may lie between them. A read goes on behind
the ends until it has both halves of each transfer of which it has one, and nothing else behind the ends counts. Then the amounts
that it has seen sum up to zero.
"""

import threading
import uuid
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.support.polling import rounds

BATCH, POLL_S, ASK_S = 1000, 0.1, 10.0
PAUSE_S = 1.0
TO_ENDS_S, TO_HALVES_S = 120.0, 60.0
PASSING = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._UNKNOWN_PARTITION,  # librdkafka says so of one without a leader, too
)
Record = tuple[int, str]
"""Its offset and its value."""


def digest(records: Iterable[Record], start: int = 0) -> int:
    """CRC-32 of records, or of what follows records of which it is `start`."""
    for offset, value in records:
        start = zlib.crc32(f"{offset} {value}\n".encode(), start)
    return start


@dataclass(frozen=True)
class CommittedRead:
    """One read, by partition. `torn`: transfers of which it saw no two halves with the sum of zero."""

    client: str
    ends: Sequence[int]
    digests: Sequence[int]
    torn: Sequence[str]


class Reading:
    """What a read has seen. `ends`: the last stable offset of each partition when it began."""

    def __init__(self, ends: Sequence[int]) -> None:
        self.ends = ends
        self.records: list[list[Record]] = [[] for _ in ends]
        """Those below the ends."""
        self._begun: set[str] = set()
        self._amounts: dict[str, list[int]] = {}

    def take(self, partition: int, offset: int, value: str) -> None:
        name, amount = value.split()
        self._amounts.setdefault(name, []).append(int(amount))
        if offset < self.ends[partition]:
            self._begun.add(name)
            self.records[partition].append((offset, value))

    def torn(self) -> list[str]:
        return [name for name in sorted(self._begun) if len(self._amounts[name]) != 2 or sum(self._amounts[name])]

    def as_read(self) -> CommittedRead:
        return CommittedRead("librdkafka", self.ends, [digest(records) for records in self.records], self.torn())


class CommittedReader:
    """A consumer for one read. Use as a context manager."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": uuid.uuid4().hex,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
                "log_level": 0,
            }
        )
        self._partitions = [TopicPartition(topic, index, 0) for index in range(partitions)]

    def read(self) -> Reading:
        """Raises AssertionError if the ends cannot be reached, KafkaException for what no fault explains."""
        reading = Reading([self._end(partition) for partition in self._partitions])
        reached = [0] * len(self._partitions)
        self._consumer.assign(self._partitions)
        for _ in rounds(f"a read to {reading.ends}", TO_ENDS_S):
            self._poll(reading, reached)
            if all(offset >= end for offset, end in zip(reached, reading.ends, strict=True)):
                break
        with suppress(AssertionError):  # `torn` says which are missing
            for _ in rounds("the other halves", TO_HALVES_S):
                if not reading.torn():
                    break
                self._poll(reading, reached)
        return reading

    def _end(self, partition: TopicPartition) -> int:
        for _ in rounds(f"the end of {partition}", TO_ENDS_S):
            try:
                return int(self._consumer.get_watermark_offsets(partition, ASK_S)[1])
            except KafkaException as failure:
                _expect_passing(failure.args[0])
            self._refresh(partition.topic)
        raise AssertionError("unreachable: rounds() ends by raising")

    def _refresh(self, topic: str) -> None:
        """Asks for Metadata. To librdkafka a partition without a leader stays unknown until its next regular refresh."""
        try:
            self._consumer.list_topics(topic, ASK_S)
        except KafkaException as failure:
            _expect_passing(failure.args[0])
        self._consumer.poll(POLL_S)

    def _poll(self, reading: Reading, reached: list[int]) -> None:
        for message in self._consumer.consume(BATCH, POLL_S):
            self._take(message, reading, reached)

    def _take(self, message: Message, reading: Reading, reached: list[int]) -> None:
        partition, offset, value, error = message.partition(), message.offset(), message.value(), message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            _expect_passing(error)
            return
        assert partition is not None
        assert offset is not None
        if error is None:
            assert value is not None
            reading.take(partition, offset, value.decode())
        reached[partition] = offset + (error is None)

    def __enter__(self) -> "CommittedReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def _expect_passing(error: KafkaError) -> None:
    if error.code() not in PASSING and not error.retriable():
        raise KafkaException(error)


def read_committed(bootstrap: str, topic: str, partitions: int) -> Reading:
    with CommittedReader(bootstrap, topic, partitions) as reader:
        return reader.read()


def read_again_and_again(bootstrap: str, topic: str, partitions: int, over: threading.Event, reads: list[CommittedRead]) -> None:
    while not over.is_set():
        reads.append(read_committed(bootstrap, topic, partitions).as_read())
        over.wait(PAUSE_S)
