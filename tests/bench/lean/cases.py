"""Cases whose load comes from the generator in C: they say what the servers do, and hardly what the client does.

Names: `lean-produce-16KB-4conn`, `lean-fetch-64KB-of-16KB-4conn`, `lean-offered-16KB-1000rps`. The last are open loops at a rate:
latency counts from the scheduled time, and what the servers do not get done stays in the figures.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench import frames, load
from tests.bench.cases import KIB, ROUND_BYTES, Case, Measured, unique
from tests.bench.lean.generator import Loaded, plan_connections, run_load
from tests.bench.sides import Side

SIZES = {"1KB": KIB, "16KB": 16 * KIB, "128KB": 128 * KIB, "1MB": 1000 * KIB}
FETCH_SIZES = {"64KB": 64 * KIB, "1MB": 1024 * KIB}
CONNECTIONS = (1, 4, 16, 64)
OFFERED_RATES = (250, 500, 1000, 2000, 4000, 8000)
FILLED_BYTES = 64 * 1024 * 1024
"""What a topic holds that is fetched from, over all its partitions: it stays in the page cache."""
UNANSWERED_BYTES_MAX = 128 * 1024 * 1024
"""Beyond it a round of two seconds measures how fast the disk takes dirty pages back, and what a server does meanwhile."""
IN_FLIGHT = 5
"""The most that clients have by default (`max.in.flight.requests.per.connection`)."""


@dataclass(frozen=True)
class Prepared:
    topic: str
    plan: Sequence[str]


def _measured(value: float, loaded: Loaded) -> Measured:
    return Measured(value, loaded.requests, loaded.bytes, loaded)


def _prepare_topic(side: Side, name: str, partitions: int, connections: int) -> Prepared:
    topic = unique(name)
    side.create_topic(topic, partitions)
    leaders = side.leaders(topic)
    batch = frames.record_batch(1, 100, time.time_ns() // 1_000_000)
    position = frames.produce_error_position(topic)
    for partition, leader in enumerate(leaders):
        sock = load.connect(leader)
        load.first_answer(sock, frames.produce_frame(topic, partition, batch, -1), position)
        sock.close()
    return Prepared(topic, plan_connections(leaders, connections))


def _clean(side: Side, prepared: object) -> None:
    assert isinstance(prepared, Prepared)
    side.delete_topic(prepared.topic)


def produce_case(
    name: str, size: int, connections: int, *, partitions: int = 0, acks: int = 1, value_size: int = 1000, mark: str = ""
) -> Case:
    """`partitions`: 0 gives each connection its own."""
    partitions = partitions or connections
    is_small = size <= 2 * KIB

    def run(side: Side, prepared: object, seconds: float) -> Measured:
        assert isinstance(prepared, Prepared)
        options = {
            "acks": acks,
            "in-flight": IN_FLIGHT,
            "batch-bytes": size,
            "record-bytes": value_size,
            "bytes-max": ROUND_BYTES,
        }
        loaded = run_load("produce", prepared.topic, prepared.plan, seconds, options)
        if value_size < 1000:
            return _measured(loaded.records / loaded.seconds, loaded)
        return _measured((loaded.requests if is_small else loaded.bytes / 1e6) / loaded.seconds, loaded)

    unit = "records/s" if value_size < 1000 else "requests/s" if is_small else "MB/s"
    return Case(
        name=name,
        unit=unit,
        higher_is_better=True,
        settings=(
            f"lean Produce, acks={acks}, {size} B batches of {value_size} B records, {IN_FLIGHT} in flight, "
            f"{connections} connection(s), {partitions} partition(s)"
        ),
        prepare=lambda side: _prepare_topic(side, name, partitions, connections),
        run=run,
        clean=_clean,
        mark=mark,
    )


def fetch_case(name: str, max_bytes: int, batch_size: int, connections: int, *, mark: str = "") -> Case:
    """One partition for each connection, round and round."""

    def prepare(side: Side) -> Prepared:
        prepared = _prepare_topic(side, name, connections, connections)
        in_flight = min(20, max(1, FILLED_BYTES // batch_size // connections))  # what is in flight at the end comes on top
        options = {"acks": -1, "in-flight": in_flight, "batch-bytes": batch_size, "bytes-max": FILLED_BYTES, "drain": 60}
        run_load("produce", prepared.topic, prepared.plan, 120, options)
        return prepared

    def run(side: Side, prepared: object, seconds: float) -> Measured:
        assert isinstance(prepared, Prepared)
        loaded = run_load("fetch", prepared.topic, prepared.plan, seconds, {"max-bytes": max_bytes})
        if loaded.empty:
            raise load.BenchError(f"{side.name}: {loaded.empty} of {loaded.requests} fetches brought no whole batch")
        return _measured(loaded.bytes / 1e6 / loaded.seconds, loaded)

    return Case(
        name=name,
        unit="MB/s",
        higher_is_better=True,
        settings=(
            f"lean Fetch of {max_bytes} B from batches of {batch_size} B, one in flight, {connections} connection(s); whole "
            "batches count; data in the page cache"
        ),
        prepare=prepare,
        run=run,
        clean=_clean,
        mark=mark,
    )


def offered_case(label: str, size: int, rate: int, connections: int = 4) -> Case:
    name = f"lean-offered-{label}-{rate}rps"

    def run(side: Side, prepared: object, seconds: float) -> Measured:
        assert isinstance(prepared, Prepared)
        options = {"acks": 1, "in-flight": IN_FLIGHT, "batch-bytes": size, "rate": rate, "drain": 2}
        loaded = run_load("produce", prepared.topic, prepared.plan, seconds, options)
        return _measured(loaded.latency_us["p99"] / 1e3, loaded)

    return Case(
        name=name,
        unit="ms (p99)",
        higher_is_better=False,
        settings=(
            f"lean Produce, acks=1, {size} B batches, open loop at {rate} requests/s over {connections} connection(s), at most "
            f"{IN_FLIGHT} in flight on each; latency from the scheduled time"
        ),
        prepare=lambda side: _prepare_topic(side, name, connections, connections),
        run=run,
        clean=_clean,
        mark="≤ 1" if rate == 1000 else "",
    )


def lean_cases() -> list[Case]:
    cases = [
        produce_case(f"lean-produce-{label}-{connections}conn", size, connections)
        for label, size in SIZES.items()
        for connections in CONNECTIONS
        if size * connections * IN_FLIGHT <= UNANSWERED_BYTES_MAX
    ]
    cases += [
        produce_case(f"lean-produce-16KB-of-100B-{connections}conn", 16 * KIB, connections, value_size=100)
        for connections in (1, 4)
    ]
    cases += [produce_case(f"lean-produce-1KB-{n}partitions", KIB, 4, partitions=n) for n in (100, 1000)]
    cases += [
        fetch_case(f"lean-fetch-{label}-of-{of}-{connections}conn", max_bytes, size, connections, mark="≥ 1")
        for label, max_bytes in FETCH_SIZES.items()
        for of, size in SIZES.items()
        for connections in (1, 4, 16)
    ]
    return cases + [offered_case("16KB", 16 * KIB, rate) for rate in OFFERED_RATES]


def lean_replicated_cases() -> list[Case]:
    """Three replicas, acks=all: with more than one connection, leaders take turns."""
    return [
        produce_case(f"lean-replicated-{label}-{connections}conn", SIZES[label], connections, acks=-1)
        for label in ("1KB", "16KB", "128KB")
        for connections in (1, 4)
    ]
