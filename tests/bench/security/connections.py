"""One gateway with thousands of connections: its memory when they idle, its longest turn while they reconnect, and what a slow
loris takes from others. Penstock alone: nothing here is compared with Kafka.
"""

import ssl
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.cases import KIB
from tests.bench.lean.cases import prepare_topic
from tests.bench.lean.generator import run_load
from tests.bench.load import Address
from tests.bench.own_figure import own_figure
from tests.bench.security.many_clients import open_clients
from tests.bench.security.slow_loris import SlowLoris, Way
from tests.bench.security.turn_meter import Turns, metered
from tests.bench.sides import Side
from tests.support.certificates import make_authority
from tests.support.cluster_harness import LocalCluster
from tests.support.ports import reserve_ports

CONNECTIONS = 5000
LORISES = 2000
PLAIN_COUNTS = (1, 10, 100, 1000, 5000)
REST_S = 5.0
"""In which the gateway sweeps, and gives memory back."""
GATEWAY = "gateway-1"
PAIRS, WINDOW_S, RATE = 12, 3.0, 400
RECONNECTIONS = 3


@dataclass(frozen=True)
class Subject:
    """A cluster whose gateway speaks TLS on a port of its own, and notes its turns."""

    cluster: LocalCluster
    tls: Address
    plain: Address
    context: ssl.SSLContext
    turns: Turns
    side: Side
    """Its plain listener."""

    def memory_mb(self) -> float:
        return self.cluster.memory_bytes(GATEWAY) / 1e6


@contextmanager
def started() -> Iterator[Subject]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root:
        authority = make_authority(Path(root) / "authority")
        ports = reserve_ports(10)
        environment = {
            "PENSTOCK_SSL_LISTENER": f"SSL://127.0.0.1:{ports.first}",
            "PENSTOCK_SSL_KEYSTORE_LOCATION": str(authority.sign("server", "/O=Penstock/CN=server")),
        }
        cluster = LocalCluster(Path(root) / "cluster", environment_of={GATEWAY: environment})
        turns = Turns(Path(root) / "turns")
        turns.create()
        cluster.alter_plans(lambda plan: metered(plan, Path(root) / "turns") if plan.name == GATEWAY else plan)
        with cluster:
            host, _, port = cluster.bootstrap.partition(":")
            side = Side("penstock", cluster.bootstrap, {"durability": "replicated"}, "replicated")
            context = ssl.create_default_context(cafile=str(authority.certificate))
            yield Subject(cluster, (host, ports.first), (host, int(port)), context, turns, side)
        ports.release()


def idle_connections() -> list[dict[str, object]]:
    """The Pss of a gateway with connections that were served once. Each count has a gateway of its own."""
    figures = []
    for kind, count in [("tls", CONNECTIONS), *[("plain", count) for count in PLAIN_COUNTS]]:
        with started() as subject:
            time.sleep(REST_S)
            before = subject.memory_mb()
            clients = open_clients(*((subject.tls, count, subject.context) if kind == "tls" else (subject.plain, count, None)))
            time.sleep(REST_S)
            after = subject.memory_mb()
            for client in clients:
                client.close()
        figures.append(
            own_figure(
                f"idle-connections-{count}-{kind}",
                after,
                "MB (Pss)",
                "< 300" if kind == "tls" else "",
                f"one gateway, {count} {kind} connections that were served once, idle for {REST_S:.0f} s",
                before=round(before, 1),
                kb_per_connection=round((after - before) * 1000 / count, 1),
            )
        )
    return figures


def tls_reconnects() -> list[dict[str, object]]:
    """The longest turn of the gateway's event loop while all clients come back at once."""
    with started() as subject:
        longest, seconds = [], []
        clients = open_clients(subject.tls, CONNECTIONS, subject.context)
        for _ in range(RECONNECTIONS):
            subject.turns.restart()
            began = time.perf_counter()
            for client in clients:
                client.close()
            clients = open_clients(subject.tls, CONNECTIONS, subject.context)
            seconds.append(round(time.perf_counter() - began, 1))
            longest.append(round(subject.turns.longest_ms(), 1))
        for client in clients:
            client.close()
    settings = f"{CONNECTIONS} TLS connections are closed and opened again, {RECONNECTIONS} times; the worst counts"
    return [
        own_figure(
            "tls-reconnects", max(longest), "ms of thread CPU, longest turn", "≤ 50", settings, values=longest, seconds=seconds
        )
    ]


def slow_loris() -> list[dict[str, object]]:
    """p99 of a well-behaved client in windows with and without the lorises, in turn."""
    with started() as subject:
        prepared = prepare_topic(subject.side, "loris", 4, 4)

        def p99_ms() -> float:
            options = {"acks": 1, "batch-bytes": KIB, "rate": RATE, "drain": 5}
            # The gateway opens or closes the slow connections in the first window, which does not count.
            run_load("produce", prepared.topic, prepared.plan, WINDOW_S, options)
            return run_load("produce", prepared.topic, prepared.plan, WINDOW_S, options).latency_us["p99"] / 1e3

        return [_loris_figure(subject, way, p99_ms) for way in Way]


def _loris_figure(subject: Subject, way: Way, p99_ms: Callable[[], float]) -> dict[str, object]:
    address = subject.plain if way is Way.PLAIN_FRAMES else subject.tls
    p99_ms()
    alone, beside, ended = [], [], 0
    for pair in range(PAIRS):
        for with_lorises in (False, True) if pair % 2 else (True, False):
            if with_lorises:
                with SlowLoris(address, way, LORISES, subject.context) as loris:
                    beside.append(p99_ms())
                ended += loris.ended
            else:
                alone.append(p99_ms())
    ratio = statistics.median(beside) / statistics.median(alone)
    return own_figure(
        f"slow-loris-{way.value}",
        ratio,
        "× p99 without them",
        "≤ 1.2",
        f"{LORISES} connections send a byte every now and then; others: open loop, {RATE} Produces of 1 KB a second on 4 "
        f"connections, windows of {WINDOW_S:.0f} s in turn; the ratio of medians",
        p99_ms={"alone": [round(value, 2) for value in alone], "beside": [round(value, 2) for value in beside]},
        pairs=PAIRS,
        ended_by_gateway=ended,
    )
