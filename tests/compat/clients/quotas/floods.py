"""Clients that move records as fast as their quotas let them: each kind produces them, and reads those that are there.

Values are numbers from 0 on, padded to RECORD bytes. Three in four records go to partition 0, where the client can choose. A
request has some 16 KB, so that what each connection may send over its quota is little beside the rate.
"""

import logging
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.compat.clients import kafka_python
from tests.compat.clients.groups.builds import franz_go_member
from tests.compat.clients.quotas.rates import Progress
from tests.compat.kafka.archives import BRIEF
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import TOOLS
from tests.support.polling import rounds
from tests.support.requirements import ROOT

RECORD = 4_000
REQUEST = 16 << 10
WITHIN_S = 90.0
PARTITIONS = 2
logging.getLogger("kafka.net.connection").setLevel(logging.ERROR)  # kafka-python warns of each throttle time


@dataclass
class Seen:
    """What one client has seen so far."""

    progress: Progress = field(default_factory=Progress)
    """Of bytes that it has read."""
    numbers: list[int] = field(default_factory=list)
    """Of records that it has read."""
    throttle_ms: float = 0.0
    """The longest throttle time that the client tells of."""

    def throttled(self, told_ms: float) -> None:
        self.throttle_ms = max(self.throttle_ms, told_ms)

    def read(self, numbers: list[int]) -> None:
        if numbers:
            self.numbers += numbers
            self.progress.note(len(self.numbers) * RECORD)


class Client(Protocol):
    """Both return when all is done, and raise for any error."""

    def produce(self, bootstrap: str, name: str, count: int, seen: Seen) -> None:
        """`name`: its client id and its topic."""

    def consume(self, bootstrap: str, name: str, count: int, seen: Seen) -> None: ...


def partition_of(number: int) -> int:
    return 0 if number % 4 else 1


def value_of(number: int) -> bytes:
    return b"%-*d" % (RECORD, number)


class Librdkafka:
    def produce(self, bootstrap: str, name: str, count: int, seen: Seen) -> None:
        failures: list[object] = []
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": name,
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.size": REQUEST,
                "queue.buffering.max.messages": 500,
                "throttle_cb": lambda event: seen.throttled(event.throttle_time * 1000),
            }
        )
        for number in range(count):
            for _ in rounds("room in the queue", WITHIN_S):
                try:
                    producer.produce(
                        name,
                        value_of(number),
                        partition=partition_of(number),
                        on_delivery=lambda error, _: failures.append(error) if error else None,
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
        assert producer.flush(WITHIN_S) == 0
        assert not failures, failures[0]

    def consume(self, bootstrap: str, name: str, count: int, seen: Seen) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": name,
                "group.id": "unused",
                "enable.auto.commit": False,
                "fetch.message.max.bytes": REQUEST,
                "throttle_cb": lambda event: seen.throttled(event.throttle_time * 1000),
            }
        )
        consumer.assign([TopicPartition(name, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        try:
            for _ in rounds(f"{count} records", WITHIN_S):
                messages = consumer.consume(num_messages=1_000, timeout=0.05)
                assert not [message.error() for message in messages if message.error()]
                seen.read([int(message.value()) for message in messages])
                if len(seen.numbers) >= count:
                    return
        finally:
            consumer.close()


class KafkaPython:
    def produce(self, bootstrap: str, name: str, count: int, seen: Seen) -> None:
        producer = kafka_python.KafkaProducer(
            bootstrap_servers=bootstrap, client_id=name, batch_size=REQUEST, linger_ms=5, max_block_ms=90_000
        )
        try:
            sent = [producer.send(name, value_of(number), partition=partition_of(number)) for number in range(count)]
            for future in sent:
                future.get(timeout=WITHIN_S)
            seen.throttle_ms = longest_throttle_ms(producer.metrics(), "throttle-time-max")
        finally:
            producer.close()

    def consume(self, bootstrap: str, name: str, count: int, seen: Seen) -> None:
        consumer = kafka_python.KafkaConsumer(
            bootstrap_servers=bootstrap, client_id=name, group_id=None, max_partition_fetch_bytes=REQUEST
        )
        try:
            consumer.assign([kafka_python.TopicPartition(name, partition) for partition in range(PARTITIONS)])
            consumer.seek_to_beginning()
            for _ in rounds(f"{count} records", WITHIN_S):
                fetched = consumer.poll(timeout_ms=50)
                seen.read([int(message.value) for messages in fetched.values() for message in messages])
                if len(seen.numbers) >= count:
                    break
            seen.throttle_ms = longest_throttle_ms(consumer.metrics(), "throttle-time-max")
        finally:
            consumer.close()


def longest_throttle_ms(metrics: dict[str, dict[str, float]], name: str) -> float:
    return max(group[name] for group in metrics.values() if name in group)


@contextmanager
def running(command: list[str]) -> Iterator[Iterator[str]]:
    """The lines that a program says. Fails if it ends with an error."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        try:
            yield iter(process.stdout)
            assert process.wait(WITHIN_S) == 0, f"{command[0]} ended with {process.returncode}"
        finally:
            process.kill()


class Java:
    """Kafka's own performance tools. Their values are random, so nothing tells one record from another."""

    def produce(self, bootstrap: str, name: str, count: int, seen: Seen) -> None:
        amounts = ("--num-records", str(count), "--record-size", str(RECORD), "--throughput", "-1", "--print-metrics")
        settings = (f"client.id={name}", f"batch.size={REQUEST}", "linger.ms=5", "delivery.timeout.ms=90000")
        command = self._command(
            *("kafka-producer-perf-test", "--bootstrap-server", bootstrap, "--topic", name, *amounts),
            *("--command-property", *settings),
        )
        with running(command) as lines:
            for line in lines:
                self._note_throttle(line, "produce-throttle-time-max", seen)

    def consume(self, bootstrap: str, name: str, count: int, seen: Seen) -> None:
        where = ("--bootstrap-server", bootstrap, "--topic", name, "--num-records", str(count), "--fetch-size", str(REQUEST))
        shown = ("--show-detailed-stats", "--hide-header", "--reporting-interval", "200", "--print-metrics")
        read = 0
        with running(
            self._command("kafka-consumer-perf-test", *where, *shown, "--command-property", f"client.id={name}")
        ) as lines:
            for line in lines:
                columns = line.split(", ")
                if len(columns) >= 6 and columns[0][:2] == "20":
                    read = int(columns[4])
                    seen.progress.note(read * RECORD)
                self._note_throttle(line, "fetch-throttle-time-max", seen)

    @staticmethod
    def _command(tool: str, *arguments: str) -> list[str]:
        return KafkaJars(ROOT).command(TOOLS[tool], *arguments, options=BRIEF)

    @staticmethod
    def _note_throttle(line: str, name: str, seen: Seen) -> None:
        if name in line:
            seen.throttled(float(line.rpartition(":")[2]))


class FranzGo:
    def produce(self, bootstrap: str, name: str, count: int, seen: Seen) -> None:
        self._flood("produce", bootstrap, name, count, seen)

    def consume(self, bootstrap: str, name: str, count: int, seen: Seen) -> None:
        self._flood("consume", bootstrap, name, count, seen)

    @staticmethod
    def _flood(mode: str, bootstrap: str, name: str, count: int, seen: Seen) -> None:
        with running([str(franz_go_member()), "flood", mode, bootstrap, name, name, str(count), str(RECORD)]) as lines:
            for line in lines:
                what, *numbers = line.split()
                if what == "read":
                    seen.read([*map(int, numbers)])
                else:
                    seen.throttle_ms = float(numbers[0])


CLIENTS: dict[str, Client] = {
    "librdkafka": Librdkafka(),
    "kafka-python": KafkaPython(),
    "java": Java(),
    "franz-go": FranzGo(),
}


class Endless:
    """librdkafka produces, until the end of this context. Then all that it sent is acknowledged."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.sent = 0
        self._failures: list[object] = []
        self._name = name
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": name,
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.size": REQUEST,
                "queue.buffering.max.messages": 500,
                "log_level": 0,
            }
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ends.is_set():
            try:
                self._producer.produce(
                    self._name, value_of(self.sent), partition=partition_of(self.sent), on_delivery=self._delivered
                )
            except BufferError:
                self._producer.poll(0.02)
            else:
                self.sent += 1

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failures.append(error)

    def __enter__(self) -> "Endless":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ends.set()
        self._thread.join()
        assert self._producer.flush(WITHIN_S) == 0
        assert not self._failures, self._failures[0]
