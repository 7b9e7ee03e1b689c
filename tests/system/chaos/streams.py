"""Topics that are written at full speed through whatever happens, each by a producer that remembers every answer."""

import random
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message, Producer

HEAD = struct.Struct(">4sIQ")  # mark, partition, number
MARK = b"pstk"
KEYS = 97
MESSAGE_TIMEOUT_S = 120
UNANSWERED_MAX = 600
_POOL_BYTES = 1 << 20
_NOISE = random.Random(7).randbytes(_POOL_BYTES // 2)
POOL = _NOISE + (b"the same again and again " * (_POOL_BYTES // 50 + 1))[: _POOL_BYTES // 2]
_SIZES = (0, 7, 30, 90, 90, 250, 250, 1000, 1000, 4000)


@dataclass(frozen=True, eq=False)
class Plan:
    """The promises of a topic. `sizes` are the payloads', drawn from by each record's number."""

    name: str
    partitions: int = 1
    codec: str = "none"
    idempotent: bool = True
    loses: bool = False
    """durability=replicated: what only the page cache had may go."""
    shrinks: bool = False
    """Retention takes from its start."""
    compacted: bool = False
    sizes: tuple[int, ...] = _SIZES
    config: Mapping[str, str] = field(default_factory=dict)
    in_flight: int = 5
    batch_bytes: int = 1_000_000


RETENTION_BYTES = 4_000_000

PLANS = (
    Plan("plain-codec", 2),
    Plan("zstd", 2, codec="zstd"),
    Plan("lz4-large", 1, codec="lz4", sizes=(90, 20_000, 300_000, 1000)),
    Plan("gzip", 1, codec="gzip"),
    Plan("not-idempotent", 2, codec="snappy", idempotent=False, in_flight=1),
    Plan("replicated", 2, idempotent=False, in_flight=1, loses=True, config={"durability": "replicated"}),
    Plan(
        "tiny-segments",
        2,
        shrinks=True,
        sizes=(1000, 4000, 9000),
        batch_bytes=30_000,
        config={"internal.segment.bytes": "50000", "retention.bytes": str(RETENTION_BYTES)},
    ),
    Plan(
        "compacted",
        2,
        compacted=True,
        sizes=(90, 1000, 300),
        batch_bytes=30_000,
        config={"cleanup.policy": "compact", "internal.segment.bytes": "50000", "min.cleanable.dirty.ratio": "0.1"},
    ),
)


@dataclass
class Written:
    """The records of one partition.

    `acknowledged`: (life, offset, number) as answers came. No offset: its answer was lost, a later one showed that it was stored.
    `caught`: numbers that had no answer when the power went.
    """

    acknowledged: list[tuple[int, int | None, int]] = field(default_factory=list)
    caught: set[int] = field(default_factory=set)
    unanswered: set[int] = field(default_factory=set)
    next: int = 0


def value_of(partition: int, number: int, sizes: tuple[int, ...]) -> bytes:
    start = (number * 2_654_435_761 + partition * 40_503) % (_POOL_BYTES - max(sizes) - 1)
    return HEAD.pack(MARK, partition, number) + POOL[start : start + sizes[number % len(sizes)]]


def key_of(number: int) -> bytes:
    return b"k%d" % (number * number % KEYS)


class Stream:
    """One topic's producer, in a thread of its own. `life` counts the storage node's lives; whoever starts it raises it."""

    def __init__(self, bootstrap: str, topic: str, plan: Plan) -> None:
        self.topic, self.plan = topic, plan
        self.life = 0
        self.written = [Written() for _ in range(plan.partitions)]
        self.failures: list[str] = []
        self._lock = threading.Lock()
        self._stopping, self._going = threading.Event(), threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": plan.idempotent,
                "acks": "all",
                "compression.type": plan.codec,
                "max.in.flight": plan.in_flight,
                "linger.ms": 1,
                "batch.num.messages": 100,
                "batch.size": plan.batch_bytes,
                "queue.buffering.max.messages": 2 * UNANSWERED_MAX,
                "message.max.bytes": 1_000_000,
                "message.timeout.ms": MESSAGE_TIMEOUT_S * 1000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 200,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "error_cb": self._heard,
                "log_level": 2,
            }
        )
        self._thread = threading.Thread(target=self._work, name=f"produces to {topic}")

    def go(self) -> None:
        self._going.set()
        if not self._thread.is_alive():
            self._thread.start()

    def pause(self) -> None:
        """Sends no more; answers still come."""
        self._going.clear()

    @property
    def is_quiet(self) -> bool:
        """Whether everything has its answer."""
        return len(self._producer) == 0 and not any(written.unanswered for written in self.written)

    def close(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._producer.purge()
        self._producer.flush(5)
        self._producer.close()

    @property
    def acknowledged(self) -> int:
        return sum(len(written.acknowledged) for written in self.written)

    def acknowledged_in_this_life(self) -> int:
        """The acknowledged records of the partition that has fewest."""
        fewest = 1 << 60
        for written in self.written:
            count = 0
            for life, _, _ in reversed(written.acknowledged):
                if life != self.life:
                    break
                count += 1
            fewest = min(fewest, count)
        return fewest

    def caught(self) -> None:
        """The power is about to go: whatever has no answer now may come to be stored twice."""
        with self._lock:
            for written in self.written:
                written.caught |= written.unanswered

    def _work(self) -> None:
        while not self._stopping.is_set():
            if (
                self._going.is_set() and len(self._producer) <= UNANSWERED_MAX // 2
            ):  # in larger portions: so many threads share one interpreter
                for _ in range(UNANSWERED_MAX // 2 // self.plan.partitions):
                    for partition, written in enumerate(self.written):
                        self._send(partition, written)
            self._producer.poll(0.005)

    def _send(self, partition: int, written: Written) -> None:
        number = written.next
        written.next = number + 1
        with self._lock:
            written.unanswered.add(number)
        value = value_of(partition, number, self.plan.sizes)
        self._producer.produce(
            self.topic, value, key=key_of(number), partition=partition, on_delivery=self._hear(written, number)
        )

    def _hear(self, written: Written, number: int) -> Callable[[KafkaError | None, Message], None]:
        def answered(error: KafkaError | None, message: Message) -> None:
            with self._lock:
                written.unanswered.discard(number)
            if error is None:
                offset = message.offset()
                written.acknowledged.append((self.life, offset if offset is not None and offset >= 0 else None, number))
            else:
                self.failures.append(f"{self.topic}: record {number}: {error}")

        return answered

    def _heard(self, error: KafkaError) -> None:
        if error.fatal():
            self.failures.append(f"{self.topic}: {error}")
