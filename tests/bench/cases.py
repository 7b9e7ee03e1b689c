"""The cases of the benchmark. Each runs on one side for a few seconds, gives one figure, and does the same on Apache Kafka."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.bench import frames, load
from tests.bench.lean.generator import Loaded
from tests.bench.sides import Side

KIB = 1024
ROUND_BYTES = 768 * 1024 * 1024
"""A round stops here at the latest: beyond some gigabytes of dirty pages the kernel's write-back is what gets measured."""


@dataclass(frozen=True)
class Measured:
    value: float
    requests: int
    """That the servers answered meanwhile (records, where a client decides how many go into a request)."""
    bytes: int = 0
    """Of record batches that went over the network meanwhile. 0: nobody counted."""
    loaded: Loaded | None = None
    """What the load generator in C tells of this run."""


@dataclass(frozen=True)
class Case:
    name: str
    unit: str
    higher_is_better: bool
    settings: str
    prepare: Callable[[Side], object]
    """Makes topics and data; its result is handed to each `run`."""
    run: Callable[[Side, object, float], Measured]
    clean: Callable[[Side, object], None]
    mark: str = ""
    """What the ratio has to reach."""
    per: str = "request"
    renew: Callable[[Side, object], object] | None = None
    """What comes before each turn, and counts for nothing: it is given what was prepared, and returns what takes its place."""


@dataclass
class Topic:
    name: str
    targets: list[tuple[load.Address, bytes]]
    payload: int
    timestamps: list[int] = field(default_factory=list)


def unique(prefix: str) -> str:
    return f"{prefix}-{time.time_ns()}"


def produce_case(
    name: str, size: int, connections: int, *, acks: int = 1, in_flight: int = 5, value_size: int = 1000, mark: str = "≥ 0.8"
) -> Case:
    def prepare(side: Side) -> Topic:
        topic = unique(name)
        side.create_topic(topic, connections)
        batch, _ = frames.batch_of_about(size, value_size, time.time_ns() // 1_000_000)
        leaders = side.leaders(topic)
        return Topic(
            topic, [(leader, frames.produce_frame(topic, i, batch, acks)) for i, leader in enumerate(leaders)], len(batch)
        )

    def run(side: Side, prepared: object, seconds: float) -> Measured:
        assert isinstance(prepared, Topic)
        position = frames.produce_error_position(prepared.name)
        result = load.produce(prepared.targets, position, prepared.payload, in_flight, seconds, ROUND_BYTES)
        return Measured(result.requests_per_s if size <= 2 * KIB else result.megabytes_per_s, result.requests)

    return Case(
        name=name,
        unit="requests/s" if size <= 2 * KIB else "MB/s",
        higher_is_better=True,
        settings=(
            f"raw Produce, acks={acks}, {size} B batches of {value_size} B records, {in_flight} in flight, "
            f"{connections} connection(s)"
        ),
        prepare=prepare,
        run=run,
        clean=lambda side, prepared: side.delete_topic(prepared.name),  # type: ignore[attr-defined]
        mark=mark,
    )


@dataclass
class Filled:
    name: str
    targets: list[tuple[load.Address, frames.FetchFrame]]
    offsets: list[int]


def fetch_case(name: str, size: int, connections: int, *, batch_size: int = 16 * KIB) -> Case:
    """A batch that is larger than `size` comes whole, and alone."""
    per_partition = 256 * 1024 * 1024 // connections

    def prepare(side: Side) -> Filled:
        topic = unique(name)
        side.create_topic(topic, connections)
        batch, records = frames.batch_of_about(batch_size, 1000, time.time_ns() // 1_000_000)
        leaders = side.leaders(topic)
        position = frames.produce_error_position(topic)
        count = per_partition // len(batch)
        for index, leader in enumerate(leaders):
            frame = frames.produce_frame(topic, index, batch, -1)
            load.produce([(leader, frame)], position, len(batch), 50, 120, per_partition)
        step = max(1, size // len(batch)) * records
        offsets = list(range(0, count * records - 2 * step, step))
        targets = [(leader, frames.fetch_frame(topic, index, size)) for index, leader in enumerate(leaders)]
        return Filled(topic, targets, offsets)

    def run(side: Side, prepared: object, seconds: float) -> Measured:
        assert isinstance(prepared, Filled)
        position = frames.fetch_error_position(prepared.name)
        result = load.fetch(prepared.targets, position, prepared.offsets, max(size, batch_size), seconds)
        if result.bytes < result.requests * size * 0.7:
            raise load.BenchError(f"{side.name}: {result.bytes / result.requests:.0f} bytes a fetch, {size} were asked for")
        return Measured(result.megabytes_per_s, result.requests)

    return Case(
        name=name,
        unit="MB/s",
        higher_is_better=True,
        settings=(
            f"raw Fetch of {size} B from batches of {batch_size} B, one in flight, {connections} connection(s), data in the page "
            "cache"
        ),
        prepare=prepare,
        run=run,
        clean=lambda side, prepared: side.delete_topic(prepared.name),  # type: ignore[attr-defined]
        mark="≥ 1.0" if size >= 1024 * KIB else "≥ 0.6",
    )


def latency_case(name: str, *, acks: int, rate: float = 1000.0) -> Case:
    base = produce_case(name, KIB, 1, acks=acks)

    def run(side: Side, prepared: object, seconds: float) -> Measured:
        assert isinstance(prepared, Topic)
        address, frame = prepared.targets[0]
        found = load.latency_at(address, frame, frames.produce_error_position(prepared.name), rate, seconds)
        return Measured(found.p99_ms, found.requests)

    return Case(
        name=name,
        unit="ms (p99)",
        higher_is_better=False,
        settings=f"raw Produce, acks={acks}, 1 KiB batches, open loop at {rate:.0f} requests/s, one connection",
        prepare=base.prepare,
        run=run,
        clean=base.clean,
        mark="≤ 1.5",
    )


def raw_cases() -> list[Case]:
    cases = []
    for label, size in (("1KB", KIB), ("16KB", 16 * KIB), ("128KB", 128 * KIB), ("1MB", 1000 * KIB)):
        for connections in (1, 4):
            cases.append(produce_case(f"produce-{label}-{connections}conn", size, connections))
    for label, size in (("64KB", 64 * KIB), ("1MB", 1024 * KIB)):
        for connections in (1, 4):
            cases.append(fetch_case(f"fetch-{label}-{connections}conn", size, connections))
    for connections in (1, 4):
        cases.append(fetch_case(f"fetch-64KB-of-128KB-{connections}conn", 64 * KIB, connections, batch_size=128 * KIB))
    cases.append(latency_case("latency-p99-1000rps", acks=1))
    return cases
