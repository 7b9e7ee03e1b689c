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
FILLED_WITHIN_S = 120.0
UNANSWERED_BYTES_MAX = 128 * 1024 * 1024
"""Beyond it a round of two seconds measures how fast the disk takes dirty pages back, and what a server does meanwhile."""
IN_FLIGHT = 5
"""The most that clients have by default (`max.in.flight.requests.per.connection`)."""


@dataclass(frozen=True)
class Prepared:
    topic: str
    plan: Sequence[str]


def measured(value: float, loaded: Loaded) -> Measured:
    return Measured(value, loaded.requests, loaded.bytes, loaded)


def prepare_topic(side: Side, name: str, partitions: int, connections: int) -> Prepared:
    topic = unique(name)
    side.create_topic(topic, partitions)
    leaders = side.leaders(topic)
    batch = frames.record_batch(1, 100, time.time_ns() // 1_000_000)
    position = frames.produce_error_position(topic)
    for partition, leader in enumerate(leaders):
        sock = side.connect(leader)
        load.first_answer(sock, frames.produce_frame(topic, partition, batch, -1), position)
        sock.close()
    return Prepared(topic, plan_connections(leaders, connections))


def clean(side: Side, prepared: object) -> None:
    assert isinstance(prepared, Prepared)
    side.delete_topic(prepared.topic)


def prepare_filled(
    side: Side, name: str, connections: int, batch_size: int, filled_bytes: int, *, value_size: int = 1000
) -> Prepared:
    """A topic of as many partitions as connections, which together hold at least `filled_bytes` of record batches."""
    prepared = prepare_topic(side, name, connections, connections)
    in_flight = min(20, max(1, filled_bytes // batch_size // connections))  # what is in flight at the end comes on top
    options = {
        "acks": -1,
        "in-flight": in_flight,
        "batch-bytes": batch_size,
        "record-bytes": value_size,
        "bytes-max": filled_bytes,
        "drain": 60,
        **side.load_options,
    }
    run_load("produce", prepared.topic, prepared.plan, FILLED_WITHIN_S, options)
    return prepared


def whole_batches(side: Side, loaded: Loaded) -> Measured:
    """MB/s of fetches. Raises BenchError if one of them brought no whole batch."""
    if loaded.empty:
        raise load.BenchError(f"{side.name}: {loaded.empty} of {loaded.requests} fetches brought no whole batch")
    return measured(loaded.bytes / 1e6 / loaded.seconds, loaded)


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
            **side.load_options,
        }
        loaded = run_load("produce", prepared.topic, prepared.plan, seconds, options)
        if value_size < 1000:
            return measured(loaded.records / loaded.seconds, loaded)
        return measured((loaded.requests if is_small else loaded.bytes / 1e6) / loaded.seconds, loaded)

    unit = "records/s" if value_size < 1000 else "requests/s" if is_small else "MB/s"
    return Case(
        name=name,
        unit=unit,
        higher_is_better=True,
        settings=(
            f"lean Produce, acks={acks}, {size} B batches of {value_size} B records, {IN_FLIGHT} in flight, "
            f"{connections} connection(s), {partitions} partition(s)"
        ),
        prepare=lambda side: prepare_topic(side, name, partitions, connections),
        run=run,
        clean=clean,
        mark=mark,
    )


def fetch_case(
    name: str, max_bytes: int, batch_size: int, connections: int, *, filled_bytes: int = FILLED_BYTES, mark: str = ""
) -> Case:
    """One partition for each connection, round and round."""

    def run(side: Side, prepared: object, seconds: float) -> Measured:
        assert isinstance(prepared, Prepared)
        options = {"max-bytes": max_bytes, **side.load_options}
        return whole_batches(side, run_load("fetch", prepared.topic, prepared.plan, seconds, options))

    return Case(
        name=name,
        unit="MB/s",
        higher_is_better=True,
        settings=(
            f"lean Fetch of {max_bytes} B from batches of {batch_size} B, one in flight, {connections} connection(s); whole "
            "batches count; data in the page cache"
        ),
        prepare=lambda side: prepare_filled(side, name, connections, batch_size, filled_bytes),
        run=run,
        clean=clean,
        mark=mark,
    )


def offered_case(label: str, size: int, rate: int, connections: int = 4, *, prefix: str = "lean-offered") -> Case:
    name = f"{prefix}-{label}-{rate}rps"

    def run(side: Side, prepared: object, seconds: float) -> Measured:
        assert isinstance(prepared, Prepared)
        options = {"acks": 1, "in-flight": IN_FLIGHT, "batch-bytes": size, "rate": rate, "drain": 2} | side.load_options
        loaded = run_load("produce", prepared.topic, prepared.plan, seconds, options)
        return measured(loaded.latency_us["p99"] / 1e3, loaded)

    return Case(
        name=name,
        unit="ms (p99)",
        higher_is_better=False,
        settings=(
            f"lean Produce, acks=1, {size} B batches, open loop at {rate} requests/s over {connections} connection(s), at most "
            f"{IN_FLIGHT} in flight on each; latency from the scheduled time"
        ),
        prepare=lambda side: prepare_topic(side, name, connections, connections),
        run=run,
        clean=clean,
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


def lean_tls_cases() -> list[Case]:
    """The same load on a listener with TLS, of each side. Both serve a certificate with a key on P-256."""
    cases = [
        produce_case(f"lean-tls-produce-{label}-{connections}conn", SIZES[label], connections, mark="≥ 0.8")
        for label in SIZES
        for connections in (1, 4, 16)
        if SIZES[label] * connections * IN_FLIGHT <= UNANSWERED_BYTES_MAX
    ]
    cases += [
        fetch_case(f"lean-tls-fetch-{label}-of-{of}-{connections}conn", max_bytes, SIZES[of], connections, mark="≥ 0.8")
        for label, max_bytes in FETCH_SIZES.items()
        for of in ("16KB", "128KB")
        for connections in (1, 4)
    ]
    return [*cases, offered_case("16KB", 16 * KIB, 1000, prefix="lean-tls-offered")]
