"""Client quotas on real processes: two gateways with two storage nodes. `python -m tests.bench.quotas` prints JSON lines.

    [--only accuracy|neighbour|cost|entities] [--seconds 60] [--windows 10] [--window-s 10] [--entities 10000] [--parent CHECKOUT]

- accuracy: ten clients share one limit. They load the gateways unevenly, and choose others every 2 s. Percent above the limit,
  and percent of it that was used; asks a second of both gateways.
- neighbour: a quiet client beside one that wants ten times its quota, by turns with the quiet one alone. The median over pairs of
  windows of the ratio of the quiet client's p99.
- cost: CPU of a gateway per Produce, by turns with no entity configured, with 1,000 others, and with 1,000 of which the client is
  one. `--parent` adds the same load on another checkout's Penstock, set up by its `make setup`.
- entities: memory and CPU of the quota manager while many entities use their quotas.

Other load spoils the second and makes the others rough: take figures on a quiet machine.
"""

import argparse
import json
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bench import frames, load
from tests.bench.cpu import cpu_s
from tests.bench.sides import Side
from tests.compat.differential.scenarios.client_quotas import ALTER, PRODUCER, alteration, entry
from tests.compat.differential.systems import System
from tests.support.cluster_harness import LocalCluster
from tests.support.requirements import ROOT

TOPIC = "quotas"
PARTITIONS = 2
LIMITED, QUIET = b"limited", b"quiet"
RATE = 2_000_000
CLIENTS = 10
SIZES = (1_000, 50_000)
MOVES_EVERY_S = 2.0
SETTLING_S = 2.0
CONFIGURED = 1_000
TOO_HIGH = 1e12
"""A rate that nobody reaches."""
QUIET_PER_S = 100.0
GREEDY_PER_S = 10 * RATE
MANAGER = "quota_manager-1"


class Rig:
    """One cluster with a topic, whose partitions have a gateway each."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self._system = System("Penstock", cluster.shape.port + 1)
        side = Side("penstock", cluster.bootstrap)
        side.create_topic(TOPIC, PARTITIONS, {"retention.bytes": str(64 << 20), "segment.bytes": str(16 << 20)})
        self.leaders = side.leaders(TOPIC)

    def limit(self, rates: dict[str | None, float | None]) -> None:
        """The quotas of clients by their ids. None: the default client's id, or no quota."""
        entries = [entry({"client-id": client_id}, {PRODUCER: rate}) for client_id, rate in rates.items()]
        answer = self._system.ask(ALTER, 1, alteration(*entries))
        assert isinstance(answer, dict), answer
        assert not any(each["error_code"] for each in answer["entries"]), answer

    def asks(self) -> float:
        lines = self.cluster.admin(MANAGER, "/metrics").splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("penstock_quota_manager_asks_total"))


@contextmanager
def started(root: Path = ROOT) -> Iterator[Rig]:
    with LocalCluster(storage=2, gateways=2, root=root) as cluster:
        yield Rig(cluster)


def frame_of(size: int, client_id: bytes, partition: int) -> bytes:
    return frames.produce_frame(TOPIC, partition, frames.record_batch(1, size, time.time_ns() // 1_000_000), 1, client_id)


class Clients:
    """Clients in threads of this process, each with one request in flight on one connection a gateway, until the context ends."""

    def __init__(self, rig: Rig, count: int, pace: Callable[[int], float] = lambda size: 0.0) -> None:
        """`pace`: the seconds from one request of that size to the next, if its answer comes sooner."""
        self._leaders, self._pace = rig.leaders, pace
        self.bytes = [0] * count
        self.places = [0] * count
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(count)]
        self._frames = {
            (size, place): frame_of(size, LIMITED, place) for size in range(*SIZES, 7_000) for place in range(len(rig.leaders))
        }

    def _run(self, number: int) -> None:
        choice, position = random.Random(number), frames.produce_error_position(TOPIC)
        connections = [load.connect(leader) for leader in self._leaders]
        while not self._ends.is_set():
            size, place = choice.choice(range(*SIZES, 7_000)), self.places[number]
            frame, began = self._frames[size, place], time.monotonic()
            connections[place].sendall(frame)
            load.check_answer(load.read_frame(connections[place]), position)
            self.bytes[number] += len(frame)
            self._ends.wait(max(0.0, self._pace(size) - (time.monotonic() - began)))
        for connection in connections:
            connection.close()

    def move(self, choice: random.Random) -> None:
        crowded = choice.random()
        self.places[:] = [0 if choice.random() < crowded else choice.randrange(PARTITIONS) for _ in self.places]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()


def accuracy(rig: Rig, given: argparse.Namespace) -> dict[str, object]:
    rig.limit({LIMITED.decode(): RATE})
    choice = random.Random(1)
    with Clients(rig, CLIENTS) as clients:
        time.sleep(SETTLING_S)
        since, before, asks = time.monotonic(), sum(clients.bytes), rig.asks()
        while time.monotonic() - since < given.seconds:
            clients.move(choice)
            time.sleep(MOVES_EVERY_S)
        elapsed = time.monotonic() - since
        used = (sum(clients.bytes) - before) / (RATE * elapsed)
        asked = (rig.asks() - asks) / elapsed
    rig.limit({LIMITED.decode(): None})
    return {
        "name": "quota-accuracy",
        "used_percent": round(100 * used, 2),
        "above_percent": round(max(0.0, 100 * used - 100), 2),
        "asks_per_s": round(asked, 1),
        "mark": "95 to 105 %, ≤ 40 asks/s",
        "seconds": round(elapsed, 1),
        "settings": f"{CLIENTS} clients, 2 gateways, {RATE} B/s, requests of {SIZES[0]} to {SIZES[1]} B",
    }


def neighbour(rig: Rig, given: argparse.Namespace) -> dict[str, object]:
    rig.limit({LIMITED.decode(): RATE})
    frame, position = frame_of(1_000, QUIET, 0), frames.produce_error_position(TOPIC)
    beside, alone = [], []

    def p99_ms() -> float:
        return load.latency_at(rig.leaders[0], frame, position, QUIET_PER_S, given.window_s).p99_ms

    for window in range(given.windows):
        if window % 2:
            with Clients(rig, CLIENTS, lambda size: CLIENTS * size / GREEDY_PER_S):
                beside.append(p99_ms())
        else:
            alone.append(p99_ms())
    rig.limit({LIMITED.decode(): None})
    ratios = [one / other for one, other in zip(beside, alone, strict=False)]
    return {
        "name": "quota-noisy-neighbour",
        "p99_ratio": round(statistics.median(ratios), 3),
        "ratio_min": round(min(ratios), 3),
        "ratio_max": round(max(ratios), 3),
        "p99_ms": {"alone": round(statistics.median(alone), 2), "beside": round(statistics.median(beside), 2)},
        "mark": "≤ 1.2",
        "windows": given.windows,
        "seconds": given.window_s,
        "settings": f"{QUIET_PER_S:.0f} requests/s of 1 KB beside 10 × {RATE} B/s, same gateway",
    }


def cost(rig: Rig, given: argparse.Namespace) -> dict[str, object]:
    others: list[str | None] = [f"entity-{number}" for number in range(CONFIGURED - 1)]
    configured: dict[str, list[str | None]] = {
        "none": [],
        "others": ["entity", *others],
        "limited": [LIMITED.decode(), *others],
    }
    with ExitStack() as stack:
        parent = stack.enter_context(started(given.parent)) if given.parent is not None else None
        figures: dict[str, list[float]] = {variant: [] for variant in (*configured, *(["parent"] if parent else []))}
        for turn in range(given.windows + 1):
            for variant in sorted(figures, reverse=bool(turn % 2)):
                at, names = (rig, configured[variant]) if variant in configured else (parent, [])
                assert at is not None
                if names:
                    at.limit(dict.fromkeys(names, TOO_HIGH))
                figure = _cpu_us(at, given.window_s / 10)
                if names:
                    at.limit(dict.fromkeys(names))
                if turn:
                    figures[variant].append(figure)
    pairs = [("others", "none"), ("limited", "none"), *([("none", "parent")] if parent else [])]
    return {
        "name": "quota-cost",
        "cpu_us": {variant: round(statistics.median(values), 2) for variant, values in figures.items()},
        "ratios": {
            f"{one} / {other}": round(statistics.median(a / b for a, b in zip(figures[one], figures[other], strict=True)), 3)
            for one, other in pairs
        },
        "mark": "≤ 1.02; none / parent: 1.0",
        "rounds": given.windows,
        "settings": f"gateways' CPU a raw Produce of 1 KB, {load.IN_FLIGHT} in flight, {CONFIGURED} entities",
    }


def _cpu_us(rig: Rig, seconds: float) -> float:
    gateways = rig.cluster.pid("gateway-1"), rig.cluster.pid("gateway-2")
    frame = frame_of(1_000, LIMITED, 0)
    before = sum(map(cpu_s, gateways))
    done = load.produce(
        [(rig.leaders[0], frame)], frames.produce_error_position(TOPIC), len(frame), load.IN_FLIGHT, seconds, 1 << 40
    )
    return (sum(map(cpu_s, gateways)) - before) * 1e6 / done.requests


def entities(rig: Rig, given: argparse.Namespace) -> dict[str, object]:
    """Each request names another client. All come by again before a slice is forgotten."""
    size, position = 1_000, frames.produce_error_position(TOPIC)
    rig.limit({None: 20.0 * size})  # a request is half of a slice: its client asks for more, and is not muted
    pid, sock = rig.cluster.pid(MANAGER), load.connect(rig.leaders[0])
    requests = [frame_of(size, b"entity-%d" % number, 0) for number in range(given.entities)]

    def round_of_all() -> None:
        for first in range(0, len(requests), load.IN_FLIGHT):
            some = requests[first : first + load.IN_FLIGHT]
            sock.sendall(b"".join(some))
            for _ in some:
                load.check_answer(load.read_frame(sock), position)

    round_of_all()
    since, before, rounds = time.monotonic(), cpu_s(pid), 0
    while time.monotonic() - since < given.seconds / 3:
        round_of_all()
        rounds += 1
    elapsed = time.monotonic() - since
    used = (cpu_s(pid) - before) / elapsed
    sock.close()
    metrics = rig.cluster.admin(MANAGER, "/metrics").splitlines()
    known = next(float(line.split()[1]) for line in metrics if line.startswith("penstock_quota_manager_entities"))
    figure = {
        "name": "quota-manager-entities",
        "entities": int(known),
        "megabytes": round(rig.cluster.memory_bytes(MANAGER) / 1e6, 1),
        "cores": round(used, 4),
        "requests_per_s": round(rounds * len(requests) / elapsed),
        "mark": "10,000 entities: < 100 MB, < 0.1 cores",
        "seconds": round(elapsed, 1),
    }
    rig.limit({None: None})
    return figure


FIGURES: dict[str, Callable[[Rig, argparse.Namespace], dict[str, object]]] = {
    "accuracy": accuracy,
    "neighbour": neighbour,
    "cost": cost,
    "entities": entities,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.quotas", description="Client quotas, as JSON lines.")
    parser.add_argument("--only", choices=FIGURES)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--windows", type=int, default=10, help="of the quiet client, and rounds of the cost")
    parser.add_argument("--window-s", type=float, default=10.0)
    parser.add_argument("--entities", type=int, default=10_000)
    parser.add_argument("--parent", type=Path, help="a checkout of another commit")
    given = parser.parse_args(arguments)
    if given.windows < 2 or given.entities < 1 or min(given.seconds, given.window_s) <= 0:
        parser.error("--windows takes 2 or more, and the others more than 0")
    with started() as rig:
        for name, measure in FIGURES.items():
            if given.only in (None, name):
                print(json.dumps(measure(rig, given)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
