"""A long produce run that can be held to its word: what was acknowledged, against what is in the log afterwards."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.polling import eventually, rounds

WITHIN_S = 120.0
ROUND_S = 0.02
"""A record to each partition, then this pause. Without a pause the run takes all CPU of the machine for as long as a fault lasts:
one upgrade of containers had 196,000 records. In an outage records still pile up, and are sent again in many requests.
"""


class ProduceRun:
    """One librdkafka producer with acks=all, in a thread of its own. Records are `partition:number`, numbered from 0 in each.

    Use as a context manager; `finish` waits until everything was answered. The retries of a plain producer (`idempotent=False`)
    may store a record twice or behind a later one, whatever the server does: of those only presence is checked.
    """

    def __init__(self, bootstrap: str, topic: str, *, partitions: int = 1, idempotent: bool = True, **settings: object) -> None:
        self.topic = topic
        self.partitions = partitions
        # (offset, number), as answers came. No offset: a later answer told that it had been stored, its own was lost.
        self.acknowledged: list[list[tuple[int | None, int]]] = [[] for _ in range(partitions)]
        self.failures: list[KafkaError] = []
        self.fatal: list[KafkaError] = []
        self.disconnects: list[KafkaError] = []
        self._idempotent = idempotent
        self._next = [0] * partitions
        named = {name.replace("_", "."): value for name, value in settings.items()}
        # Small batches and a short queue: after an outage many requests, and no more records than a test can wait for.
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": idempotent,
                "acks": "all",
                "linger.ms": 2,
                "batch.num.messages": 50,
                "queue.buffering.max.messages": 500,
                "message.timeout.ms": int(2 * WITHIN_S * 1000),
                "reconnect.backoff.max.ms": 500,
                "error_cb": self._heard,
                **named,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"produces to {topic}")

    def __enter__(self) -> "ProduceRun":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(5)
        # Its callback refers to this object, so nothing else ends it: it would go on calling ports that are others' by then.
        self._producer.close()

    def advance(self, records: int = 60, within_s: float = WITHIN_S) -> None:
        """Returns when every partition has that many acknowledged records more than now."""
        wanted = [len(acknowledged) + records for acknowledged in self.acknowledged]
        eventually(lambda: all(len(a) >= w for a, w in zip(self.acknowledged, wanted, strict=True)), within_s)

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(WITHIN_S)
        assert left == 0, f"{left} records have no answer"
        assert not self.failures, self.failures[:3]
        assert not self.fatal, self.fatal

    def _work(self) -> None:
        while not self._stopping.is_set():
            for partition in range(self.partitions):
                number = self._next[partition]
                try:
                    self._producer.produce(
                        self.topic,
                        f"{partition}:{number}".encode(),
                        partition=partition,
                        on_delivery=self._hear(partition, number),
                    )
                except BufferError:
                    break
                self._next[partition] = number + 1
            self._producer.poll(0)
            self._stopping.wait(ROUND_S)

    def _hear(self, partition: int, number: int) -> Callable[[KafkaError | None, Message], None]:
        def answered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.acknowledged[partition].append((message.offset(), number))
            else:
                self.failures.append(error)

        return answered

    def _heard(self, error: KafkaError) -> None:
        (self.fatal if error.fatal() else self.disconnects).append(error)

    def check(self, bootstrap: str) -> None:
        """Reads everything back. Nothing acknowledged is missing; with idempotence, each partition has it once and in order."""
        for partition in range(self.partitions):
            self.check_log(partition, read_all(bootstrap, self.topic, partition))

    def check_log(self, partition: int, found: list[tuple[int, int]]) -> None:
        """`found`: (offset, number) of everything that is in the partition."""
        numbers = [number for _, number in found]
        missing = {number for _, number in self.acknowledged[partition]} - set(numbers)
        assert not missing, f"{len(missing)} acknowledged records of partition {partition} are gone, e.g. {sorted(missing)[:5]}"
        moved = {(offset, number) for offset, number in self.acknowledged[partition] if offset is not None} - set(found)
        assert not moved, f"acknowledged at other offsets: {sorted(moved)[:5]}"
        if self._idempotent:
            assert numbers == list(range(len(numbers))), f"not once and in order: {_first_disorder(numbers)}"


def _first_disorder(numbers: list[int]) -> str:
    at = next((at for at, number in enumerate(numbers) if at != number), len(numbers))
    return f"record {at} is in {numbers[max(0, at - 2) : at + 6]}"


@contextmanager
def consumer(bootstrap: str, topic: str, partitions: int = 1) -> Iterator[Consumer]:
    """Assigned to all partitions from their beginnings."""
    made = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
            "fetch.error.backoff.ms": 50,
        }
    )
    made.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    try:
        yield made
    finally:
        made.close()


def read_all(bootstrap: str, topic: str, partition: int) -> list[tuple[int, int]]:
    """(offset, number) of each record that is in the partition when this is called."""
    found: list[tuple[int, int]] = []
    with consumer(bootstrap, topic, 0) as reader:
        where = TopicPartition(topic, partition, OFFSET_BEGINNING)
        _, end = reader.get_watermark_offsets(where, timeout=60)
        reader.assign([where])
        for _ in rounds(f"{end} records of {topic}-{partition}", WITHIN_S):
            if (found and found[-1][0] >= end - 1) or end == 0:
                return found
            found += _numbered(reader.consume(10_000, timeout=0.2), partition)
    raise AssertionError("unreachable: rounds() ends by raising")


def _numbered(messages: list[Message], partition: int) -> list[tuple[int, int]]:
    found = []
    for message in messages:
        assert message.error() is None, message.error()
        of_partition, _, number = message.value().partition(b":")
        assert int(of_partition) == message.partition() == partition
        found.append((message.offset(), int(number)))
    return found


class Tail:
    """A consumer that reads along in a thread of its own, through whatever happens meanwhile."""

    def __init__(self, bootstrap: str, topic: str, *, partitions: int = 1) -> None:
        self.found: list[list[tuple[int, int]]] = [[] for _ in range(partitions)]
        self.errors: list[KafkaError] = []
        self._bootstrap = bootstrap
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"consumes {topic}")

    def __enter__(self) -> "Tail":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _work(self) -> None:
        with consumer(self._bootstrap, self._topic, len(self.found)) as reader:
            while not self._stopping.is_set():
                for message in reader.consume(1000, timeout=0.1):
                    if (error := message.error()) is not None:
                        self.errors.append(error)
                    else:
                        self.found[message.partition()] += _numbered([message], message.partition())

    def catch_up(self, run: ProduceRun) -> None:
        """Returns when it has read all that the finished run stored, each record once and in order."""
        for partition, acknowledged in enumerate(run.acknowledged):
            last = max(number for _, number in acknowledged)
            eventually(lambda of=self.found[partition], last=last: of and of[-1][1] >= last, WITHIN_S)
            run.check_log(partition, list(self.found[partition]))
        assert not self.errors, self.errors[:3]
