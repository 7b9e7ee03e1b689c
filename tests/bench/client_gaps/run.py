"""One cluster with the streams of some clients, the faults that it undergoes, and the figures."""

import contextlib
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import NewTopic

from tests.bench.client_gaps.faults import CUTS, FAULTS, REPLICAS, RETURNED, TAKES_LEADERS, VERSIONS, WITHIN_S, Faults
from tests.bench.client_gaps.log_comparison import compared, compared_with_feed, read_all
from tests.bench.client_gaps.streams import MACHINE, Stream
from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.system.chaos.acknowledgement_gaps import longest_gap_ms, summary
from tests.system.chaos.hosts import HostedCluster, Hosts

FEED = "gaps-feed"
FEEDER = "librdkafka"
STEADY_S, AGAIN_S, HOLD_S = 1.5, 0.5, 20.0
CLIENT_REFRESHES = 4
"""How many refreshes of its Metadata a client has until the fault is healed."""
AWAY_S_MIN = 2.5
LIMIT_MS = 300
MACHINE_LIMIT_MS = 100
"""A repetition in which a small process waited longer for a processor or for the disk says nothing about the cluster."""
PROBES_PER_SECOND = 30
MEMORY = Path("/dev/shm")
"""Where the streams write their lines: on the cluster's disk, the file system would write them with each sync of a log."""
REST_S = 12.0
"""librdkafka waits longer from attempt to attempt before it connects to a broker again, and forgets that after 10 s of none."""
RESTED = ("gateway-killed", "rolling-restart", *VERSIONS)
COUNTS = (
    ("controller", 3),
    ("storage", 3),
    ("gateway", 2),
    ("group_coordinator", 1),
    ("transaction_coordinator", 1),
    ("quota_manager", 1),
)
NAMES = ("etcd", *(f"{role}-{node}" for role, count in COUNTS for node in range(1, count + 1)))


@dataclass(frozen=True)
class Load:
    refresh_ms: int = 0
    """How often clients refresh their Metadata. 0: their default, five minutes for all of them."""
    per_second: int = 100
    """Records of each producer."""
    durability: str = "synced"


@dataclass
class Run:
    """The streams of one refresh interval, and their gaps by stream and fault."""

    faults: Faults
    streams: list[Stream]
    probes: list[Stream]
    """What the machine does meanwhile. Nothing waits for them."""
    load: Load
    gaps_ms: dict[tuple[Stream, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    failed: Counter[tuple[Stream, str]] = field(default_factory=Counter)

    def strike(self, name: str) -> None:
        """One fault, and the leaders' return. The time until the fault is healed counts."""
        time.sleep(REST_S if name in RESTED else 0)
        self._advance(STEADY_S, WITHIN_S)
        with self._measured(name):
            heal = (FAULTS | CUTS | VERSIONS)[name](self.faults)
            self._advance_or_not()
            time.sleep(self._away_s)
            if name not in TAKES_LEADERS:
                heal()
                self._advance(AGAIN_S, WITHIN_S)
        if name in TAKES_LEADERS:
            heal()
        eventually(self.faults.is_whole, WITHIN_S)
        if name not in TAKES_LEADERS:
            self.faults.leaders_returned()
            return
        self._advance(STEADY_S, WITHIN_S)
        with self._measured(RETURNED):
            self.faults.leaders_returned()
            self._advance(AGAIN_S, WITHIN_S)
            time.sleep(self._away_s)

    def figures(self) -> Iterator[dict[str, object]]:
        for (stream, name), gaps in self.gaps_ms.items():
            figure = {"case": name, "client": stream.client, "side": stream.mode, "refresh_ms": self.load.refresh_ms}
            figure |= {"gap_ms": summary(gaps), "over_300_ms": over_limit(gaps)}
            if stream not in self.probes:
                own = [gap - shortest for gap, shortest in zip(gaps, self._shortest_ms(stream.mode, name), strict=True)]
                quiet = [gap for gap, disturbed in zip(gaps, self._disturbed(name), strict=True) if not disturbed]
                figure |= {"own_ms": summary(own), "failed": self.failed[stream, name]}
                figure |= {"undisturbed": {**summary(quiet), "over_300_ms": over_limit(quiet)} if quiet else {"n": 0}}
            yield figure

    def _shortest_ms(self, mode: str, name: str) -> list[float]:
        """For each time that the fault was played, the shortest gap of any client on that side. It is the cluster's share."""
        of_side = [gaps for (stream, case), gaps in self.gaps_ms.items() if (stream.mode, case) == (mode, name)]
        return [min(together) for together in zip(*of_side, strict=True)]

    def _disturbed(self, name: str) -> list[bool]:
        """Whether the machine itself stood still, for each time that the fault was played."""
        of_probes = [self.gaps_ms[probe, name] for probe in self.probes]
        return [max(together) > MACHINE_LIMIT_MS for together in zip(*of_probes, strict=True)]

    @property
    def _away_s(self) -> float:
        return max(AWAY_S_MIN, CLIENT_REFRESHES * self.load.refresh_ms / 1000)

    @contextmanager
    def _measured(self, name: str) -> Iterator[None]:
        failed = {stream: len(stream.failures) for stream in self.streams}
        begun_us = time.time_ns() // 1000
        yield
        ended_us = time.time_ns() // 1000
        for stream in (*self.streams, *self.probes):
            stream.read()
            times_ns = [at_us * 1000 for at_us in stream.times_us]
            self.gaps_ms[stream, name].append(longest_gap_ms(times_ns, begun_us * 1000, ended_us * 1000))
            self.failed[stream, name] += len(stream.failures) - failed.get(stream, 0)

    def _advance(self, seconds: float, within_s: float) -> None:
        """Returns when each stream has gone on for so many seconds' records."""
        wanted = {stream: len(stream.times_us) + int(seconds * self.load.per_second) for stream in self._read()}
        eventually(lambda: all(len(stream.times_us) >= wanted[stream] for stream in self._read()), within_s)

    def _advance_or_not(self) -> None:
        """Some faults are over only when they are healed."""
        with contextlib.suppress(AssertionError):
            self._advance(AGAIN_S, HOLD_S)

    def _read(self) -> list[Stream]:
        for stream in self.streams:
            stream.read()
            stream.expect_running()
        return self.streams


def probe(mode: str, directory: Path, lines: Path) -> Stream:
    arguments = ["none", str(directory / "machine.probe"), "0", "0", str(PROBES_PER_SECOND)]
    return Stream(MACHINE, mode, arguments, lines / f"{MACHINE}-{mode}")


def over_limit(gaps_ms: Sequence[float]) -> int:
    return sum(gap > LIMIT_MS for gap in gaps_ms)


def cluster_on(hosts: Hosts | None, directory: Path) -> LocalCluster:
    if hosts is None:
        return LocalCluster(directory, storage=3, gateways=2, controllers=3)
    return HostedCluster(hosts, directory, storage=3, gateways=2, controllers=3, coordinators=1, environment_of={})


def measure(
    clients: Sequence[str],
    chosen: Sequence[str],
    repetitions: int,
    load: Load,
    directory: Path,
    *,
    on_hosts: bool = False,
) -> Iterator[dict[str, object]]:
    """The figures: a row for each client, side and fault, and one for each client beside the log. The cluster leaves its files
    in `directory`. `on_hosts`: each process of the cluster has a network of its own."""
    topics = {client: f"gaps-{client}" for client in clients}
    named = [FEED, *topics.values()]
    with ExitStack() as stack:
        directory.mkdir(parents=True, exist_ok=True)
        lines = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-gaps-", dir=MEMORY if MEMORY.is_dir() else None))
        )
        hosts = stack.enter_context(Hosts(NAMES)) if on_hosts else None
        cluster = stack.enter_context(cluster_on(hosts, directory))
        admin = Admin(cluster.bootstrap)
        stack.callback(admin.close)
        config = {"durability": load.durability}
        admin.create_all([NewTopic(topic, 1, replica_assignment=[REPLICAS], config=config) for topic in named])

        def stream(name: str, client: str, mode: str, topic: str, refresh_ms: int) -> Stream:
            arguments = [cluster.bootstrap, topic, "0", str(refresh_ms), str(load.per_second)]
            return stack.enter_context(Stream(client, mode, arguments, lines / name))

        feeder = stream("feeder", FEEDER, "produce", FEED, 0)
        producers = [stream(f"{client}-out", client, "produce", topics[client], load.refresh_ms) for client in clients]
        consumers = [stream(f"{client}-in", client, "consume", FEED, load.refresh_ms) for client in clients]
        probes = [stack.enter_context(probe(mode, directory, lines)) for mode in ("processor", "disk")]
        run = Run(Faults(cluster, admin, named, hosts), [*producers, *consumers], probes, load)
        run.faults.leaders_returned()
        for name in chosen:
            for _ in range(repetitions):
                run.strike(name)
        for each in [*producers, feeder]:
            each.end()
        feed = read_all(cluster.bootstrap, FEED)
        eventually(lambda: all(consumer.has_received(max(feed)) for consumer in consumers), WITHIN_S)
        for consumer in consumers:
            consumer.end()
        yield from run.figures()
        for producer, consumer in zip(producers, consumers, strict=True):
            stored = read_all(cluster.bootstrap, topics[producer.client])
            yield {"case": "log", "client": producer.client, **compared(producer, stored), **compared_with_feed(consumer, feed)}
