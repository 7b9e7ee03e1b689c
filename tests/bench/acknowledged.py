"""A producer at a steady pace that knows when each of its records was acknowledged."""

import json
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from tests.support.polling import eventually

PER_SECOND = 500
VALUE = b"x" * 100
REQUEST_S = 60.0
STATISTICS_MS = 200
REFRESH_MS = 300_000
"""librdkafka's default: so often it asks for Metadata of its own accord."""


class SteadyProducer:
    """An idempotent librdkafka producer with acks=all, in a thread of its own, to the only partition of a topic.

    Another client looks at the partition: whoever asks librdkafka for Metadata makes it move to what it hears, and a broker that
    it has not used yet it connects to up to a second later.
    """

    def __init__(
        self, bootstrap: str, topic: str, *, replicas: int, refresh_ms: int = REFRESH_MS, per_second: int = PER_SECOND
    ) -> None:
        self.times: list[int] = []
        """Of the acknowledgements, in nanoseconds."""
        self.failures: list[str] = []
        self.topic, self._replicas, self._per_second = topic, replicas, per_second
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 0, "log_level": 2}
        settings["topic.metadata.refresh.interval.ms"] = refresh_ms
        self._producer = Producer(settings | {"statistics.interval.ms": STATISTICS_MS, "stats_cb": self._counted})
        self._observer = Producer({"bootstrap.servers": bootstrap, "log_level": 2})
        self._statistics: dict[str, Any] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="sends steadily")

    def __enter__(self) -> "SteadyProducer":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()
        self._observer.close()
        self._producer.purge()
        self._producer.flush(5)
        self._producer.close()

    def advance(self, records: int, within_s: float) -> None:
        """Returns when that many more than now were acknowledged."""
        wanted = len(self.times) + records
        eventually(lambda: len(self.times) >= wanted, within_s)

    def leader(self) -> int:
        return partition_of(self._observer, self.topic)[0]

    def port_in_use(self) -> int | None:
        """Where the producer itself has sent to of late; None while it knows no leader."""
        for broker in self._statistics.get("brokers", {}).values():
            if f"{self.topic}-0" in broker["toppars"] and broker["nodeid"] >= 0:
                return int(broker["nodename"].rpartition(":")[2])
        return None

    def is_whole(self) -> bool:
        """Every replica is in sync."""
        return partition_of(self._observer, self.topic)[1] == self._replicas

    def _work(self) -> None:
        for _ in self._ticks():
            try:
                self._producer.produce(self.topic, VALUE, partition=0, on_delivery=self._answered)
            except BufferError:
                continue

    def _ticks(self) -> Iterator[int]:
        """One for each record that is due: what could not be sent in time is sent at once, later."""
        begun, ticks = time.monotonic(), 0
        while not self._stopping.is_set():
            while ticks < int((time.monotonic() - begun) * self._per_second):
                ticks += 1
                yield ticks
            self._producer.poll(0.5 / self._per_second)

    def _counted(self, statistics: str) -> None:
        self._statistics = json.loads(statistics)

    def _answered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.times.append(time.monotonic_ns())
        else:
            self.failures.append(error.name())


def partition_of(client: Producer | AdminClient, topic: str) -> tuple[int, int]:
    """(leader, how many are in sync); leader -1 for a partition that nobody can tell of at this moment."""
    found = client.list_topics(timeout=REQUEST_S).topics[topic].partitions.get(0)
    return (-1, 0) if found is None else (found.leader, len(found.isrs))
