"""Records that arrive while groups rebalance."""

import threading

from confluent_kafka import Producer

from tests.compat.clients.groups.member import Partition

FLUSH_S = 60.0
ROUND_S = 0.02  # a record to each partition, then this


class Writing:
    """Writes to all these partitions until it ends. Use as a context manager; `ends` is true afterwards."""

    def __init__(self, bootstrap: str, partitions: set[Partition]) -> None:
        self.ends = dict.fromkeys(sorted(partitions), 0)
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self._over = threading.Event()
        self._failures: list[str] = []
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        while not self._over.is_set():
            write_round(self._producer, self.ends, self._failures)
            self._producer.poll(0)
            self._over.wait(ROUND_S)
        assert self._producer.flush(FLUSH_S) == 0

    def __enter__(self) -> "Writing":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        assert not self._failures, self._failures[:3]


def write_round(producer: Producer, ends: dict[Partition, int], failures: list[str]) -> None:
    """A record to each."""
    for (topic, partition), end in ends.items():
        producer.produce(
            topic, b"%d" % end, partition=partition, on_delivery=lambda error, _: failures.append(str(error)) if error else None
        )
        ends[(topic, partition)] = end + 1


def write(bootstrap: str, ends: dict[Partition, int], each: int) -> None:
    """That many more to each partition; `ends` grows. Returns when all are stored."""
    producer, failures = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True}), list[str]()
    for _ in range(each):
        write_round(producer, ends, failures)
    assert producer.flush(FLUSH_S) == 0
    assert not failures, failures[:3]
