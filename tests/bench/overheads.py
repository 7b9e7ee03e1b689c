"""CPU of read_committed and of idempotence, beside a warm Apache Kafka: `python -m tests.bench.overheads`.

    [--rounds 40] [--seconds 0.15] [--warm 30]

Fetches of committed records against fetches of all records, of one topic whose transactions were committed, but for every tenth;
Produce requests of an idempotent producer against plain ones. One storage node, and one broker; raw sockets. A figure is CPU of
all server processes per MB or request, as a ratio. In each round both systems run both variants, and the order alternates. One
JSON line per case: the median of the rounds' ratios for each system, and the interval that has the true median with 95 %.
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Producer

from tests.bench import frames, load
from tests.bench.cases import KIB, unique
from tests.bench.cpu import cpu_of
from tests.bench.sides import Side
from tests.bench.systems import SEGMENT_BYTES
from tests.compat.kafka.broker import KafkaBroker
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import rounds

ROUNDS, SECONDS, WARM_S = 40, 0.15, 30.0
TRANSACTIONS, RECORDS, VALUE, ABORT_EVERY = 100, 400, 1000, 10
TURN_BYTES = 16 * KIB * KIB
"""A turn of Produce requests ends here at the latest, so that the disks keep up."""
CLIENT_S = 60.0
MARK = "≤ 1.05"


class Load(ABC):
    """Two variants of one load on one side. The second is to cost no more than the first."""

    name: str
    variants: tuple[str, str]
    per: str
    settings: str

    @abstractmethod
    def run(self, variant: int, seconds: float) -> float:
        """Returns how much was done, in units of `per`."""


class Fetches(Load):
    """A consumer that walks over a topic again and again."""

    variants, per = ("read_uncommitted", "read_committed"), "MB"

    def __init__(self, side: Side, topic: str, label: str, max_bytes: int) -> None:
        self.name = f"overhead-read-committed-{label}"
        self.settings = (
            f"raw Fetch of {max_bytes} B, one in flight, transactions of {RECORDS} records of {VALUE} B in the page cache"
        )
        self._topic, self._max_bytes = topic, max_bytes
        [self._leader] = side.leaders(topic)
        self._frames = [
            frames.fetch_frame(topic, 0, max_bytes, isolation) for isolation in (frames.READ_UNCOMMITTED, frames.READ_COMMITTED)
        ]
        self._offsets = self._walk()

    def run(self, variant: int, seconds: float) -> float:
        target = (self._leader, self._frames[variant])
        position = frames.fetch_error_position(self._topic)
        return load.fetch([target], position, self._offsets, self._max_bytes, seconds).bytes / 1e6

    def _walk(self) -> list[int]:
        """The offsets that a consumer asks for, but for the last ones, behind which there is little left."""
        committed, offsets = self._frames[1], [0]
        end = TRANSACTIONS * (RECORDS + 1)
        sock = load.connect(self._leader)
        try:
            for _ in rounds("a walk over all transactions"):
                if offsets[-1] >= end:
                    break
                sock.sendall(committed.at(offsets[-1]))
                answer = load.read_frame(sock)
                load.check_answer(answer, frames.fetch_error_position(self._topic))
                if (following := frames.next_offset(answer, self._topic)) > offsets[-1]:
                    offsets.append(following)  # else the last marker is still on its way
        finally:
            sock.close()
        return offsets[:-2]


class Produces(Load):
    """A producer of one partition."""

    variants, per = ("plain", "idempotent"), "request"

    def __init__(self, side: Side, label: str, size: int) -> None:
        self.name = f"overhead-idempotent-{label}"
        self.settings = f"raw Produce, acks=all, {size} B batches of {VALUE} B records, {load.IN_FLIGHT} in flight"
        self._topic = unique(self.name)
        side.create_topic(self._topic, 1)
        [self._leader] = side.leaders(self._topic)
        batch, self._records = frames.batch_of_about(size, VALUE, time.time_ns() // 1_000_000)
        self._batch = bytearray(batch)
        self._producer = self._new_producer()
        self._sequence = 0

    def run(self, variant: int, seconds: float) -> float:
        position = frames.produce_error_position(self._topic)
        return load.produce_each(self._leader, self._topic, self._batches(variant == 1, seconds), position)

    def _batches(self, is_idempotent: bool, seconds: float) -> Iterator[bytes]:
        until = time.perf_counter() + seconds
        for _ in range(TURN_BYTES // len(self._batch)):
            if time.perf_counter() > until:
                return
            if is_idempotent:
                frames.sequenced(self._batch, self._producer, self._sequence)
                self._sequence += self._records
            else:
                frames.sequenced(self._batch, (-1, -1), -1)
            yield bytes(self._batch)

    def _new_producer(self) -> tuple[int, int]:
        with load.connect(self._leader) as sock:
            return load.new_producer(sock)


class Costs:
    """CPU in µs per unit of both variants of a load on one side, round by round."""

    def __init__(self, side: Side, load: Load) -> None:
        self._side, self.load = side, load
        self.rounds: list[tuple[float, float]] = []

    def run(self, seconds: float, *, swapped: bool) -> None:
        costs = [0.0, 0.0]
        for variant in (1, 0) if swapped else (0, 1):
            before = cpu_of(self._side.pids)
            done = self.load.run(variant, seconds)
            after = cpu_of(self._side.pids)
            costs[variant] = (sum(after.values()) - sum(before.values())) * 1e6 / done
        self.rounds.append((costs[0], costs[1]))

    def ratios(self) -> list[float]:
        return sorted(costly / base for base, costly in self.rounds)

    def medians(self) -> dict[str, float]:
        return {
            name: round(statistics.median(turn[index] for turn in self.rounds), 2)
            for index, name in enumerate(self.load.variants)
        }


def interval(ordered: Sequence[float]) -> list[float]:
    """The order statistics between which the true median lies with a probability of 95 %; all values if there are few."""
    outside = max(0, math.floor(len(ordered) / 2 - 0.98 * math.sqrt(len(ordered))))
    return [round(ordered[outside], 3), round(ordered[-1 - outside], 3)]


def figure(both: Sequence[tuple[Side, Costs]], seconds: float) -> dict[str, object]:
    work = both[0][1].load
    return {
        "name": work.name,
        **{side.name: round(statistics.median(costs.ratios()), 3) for side, costs in both},
        "interval": {side.name: interval(costs.ratios()) for side, costs in both},
        "spread": {side.name: [round(costs.ratios()[0], 3), round(costs.ratios()[-1], 3)] for side, costs in both},
        "unit": f"× CPU of {work.variants[0]}",
        "mark": MARK,
        "durability": {side.name: side.durability for side, _ in both},
        "settings": work.settings,
        "rounds": len(both[0][1].rounds),
        "seconds": seconds,
        "cpu_us": {side.name: costs.medians() for side, costs in both},
        "per": work.per,
    }


def overheads(repetitions: int = ROUNDS, seconds: float = SECONDS, warm_s: float = WARM_S) -> list[dict[str, object]]:
    with ExitStack() as stack:
        sides = [stack.enter_context(start()) for start in (_penstock, _kafka)]
        loads = {side.name: _loads(side) for side in sides}
        for side in sides:
            _warm(loads[side.name], warm_s / len(sides))
        figures = []
        for cases in zip(*[[Costs(side, load) for load in loads[side.name]] for side in sides], strict=True):
            for number in range(repetitions):
                for costs in cases if number % 2 else reversed(cases):
                    costs.run(seconds, swapped=number // 2 % 2 == 1)
            figures.append(figure(list(zip(sides, cases, strict=True)), seconds))
        return figures


@contextmanager
def _penstock() -> Iterator[Side]:
    with LocalCluster(storage=1) as cluster:
        pids = {name: cluster.pid(name) for name in cluster.names}
        yield Side("penstock", cluster.bootstrap, {**SEGMENT_BYTES, "durability": "replicated"}, "replicated", pids)


@contextmanager
def _kafka() -> Iterator[Side]:
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as root, KafkaBroker(Path(root)) as broker:
        yield Side("kafka", broker.bootstrap, SEGMENT_BYTES, "page cache", {"broker": broker.pid})


def _loads(side: Side) -> list[Load]:
    topic = _transactions(side)
    fetches = [Fetches(side, topic, label, size) for label, size in (("64KB", 64 * KIB), ("1MB", KIB * KIB))]
    return [*fetches, *[Produces(side, label, size) for label, size in (("1KB", KIB), ("16KB", 16 * KIB))]]


def _transactions(side: Side) -> str:
    """A topic of one partition with records of transactions."""
    topic = unique("overhead-transactions")
    side.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": side.bootstrap, "transactional.id": topic, "batch.size": 16 * KIB, "log_level": 2})
    producer.init_transactions(CLIENT_S)
    value = bytes(index % 251 for index in range(VALUE))
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        for _ in range(RECORDS):
            producer.produce(topic, value, partition=0)
        if number % ABORT_EVERY == ABORT_EVERY - 1:
            producer.flush(CLIENT_S)
            producer.abort_transaction(CLIENT_S)
        else:
            producer.commit_transaction(CLIENT_S)
    return topic


def _warm(loads: Sequence[Load], seconds: float) -> None:
    """A cold JIT is two to three times slower."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for work in loads:
            for variant in (0, 1):
                work.run(variant, SECONDS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.bench.overheads", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--warm", type=float, default=WARM_S)
    given = parser.parse_args()
    for each in overheads(given.rounds, given.seconds, given.warm):
        print(json.dumps(each), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
