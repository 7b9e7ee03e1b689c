"""One run: write, cut, recover, let a client and the inspectors look, again and again."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import NewTopic

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.records import ConfigOverrides
from libs.cluster.store import Put
from tests.compat.clients.admin import REQUEST_S, Admin
from tests.compat.kafka.tools import run_tool
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.support.requirements import ROOT
from tests.system.chaos.judge import Verdict
from tests.system.chaos.node_failures import NODE, ORDER, Cut, NodeFailures
from tests.system.chaos.power import Disk
from tests.system.chaos.reader import read_and_judge
from tests.system.chaos.streams import PLANS, Stream

DISK_MEBIBYTES = 1024
OFFSETS = "__consumer_offsets"
GENERATION = 5
"""After so many ends of the storage node the topics are read once more, deleted, and made anew under other names."""
LEAST_PER_PARTITION = 30
"""Records that each partition must have acknowledged in a life before it may end."""
COMPLAINTS = ("mismatch", "corrupt", "exception", "out of order", "non-consecutive", "fail")


class Broken(Exception):
    """A promise was broken."""


@dataclass
class Summary:
    """`ends` of the storage node may bring no power cut, or two. Seconds are medians and maxima, from the start of the process
    until every partition has acknowledged something."""

    seed: int
    ends: Counter[str] = field(default_factory=Counter)
    cuts: int = 0
    during_a_sync: int = 0
    during_a_roll: int = 0
    acknowledged: int = 0
    acknowledged_in_the_leanest_life: int = 1 << 30
    read: int = 0
    missing: int = 0
    stored_twice_by_retries: int = 0
    replicated_lost: int = 0
    lost_bytes: int = 0
    findings: int = 0
    recoveries_s: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, cut: Cut) -> None:
        self.ends[cut.kind] += 1
        self.cuts += cut.cuts
        self.during_a_sync += cut.during_sync
        self.during_a_roll += cut.during_roll
        self.lost_bytes += cut.lost_bytes

    def as_json(self) -> str:
        ordered = sorted(self.recoveries_s) or [0.0]
        fields = {**self.__dict__, "ends": dict(self.ends), "seconds": round(self.seconds, 1)}
        fields["recoveries_s"] = {"median": round(ordered[len(ordered) // 2], 2), "max": round(ordered[-1], 2)}
        return json.dumps(fields)

    def shortfall(self) -> str | None:
        """Why this run proves too little."""
        asked = {
            "acknowledged_in_the_leanest_life": LEAST_PER_PARTITION * sum(plan.partitions for plan in PLANS),
            "during_a_sync": self.cuts // 5,
            "during_a_roll": self.cuts // 10,
            "lost_bytes": 1,
        }
        short = [f"{name} is {getattr(self, name)}, not {least}" for name, least in asked.items() if getattr(self, name) < least]
        return ", ".join(short) or None


class Run:
    """Use `play` once."""

    def __init__(self, directory: Path, *, cuts: int, seed: int, say: Callable[[str], None]) -> None:
        self.summary = Summary(seed)
        self._cuts, self._say = cuts, say
        self._chance = random.Random(seed)
        self._directory = directory
        self._streams: list[Stream] = []
        self._generation = 0

    def play(self) -> Summary:
        """Raises Broken, and whatever else shows that something is wrong."""
        started = time.monotonic()
        disk = Disk(self._directory, DISK_MEBIBYTES)
        try:
            environment = {
                NODE: {
                    "PENSTOCK_DATA_DIR": str(disk.at),
                    "PENSTOCK_HIGH_WATERMARK_CHECKPOINT_S": "0.5",
                    "PENSTOCK_RECOVERY_CHECKPOINT_S": "2",
                },
                "gateway-1": {"PENSTOCK_OPEN_FILE_IDLE_S": "0.1"},
            }
            cluster = LocalCluster(
                self._directory / "cluster",
                environment_of=environment,
                expected_complaints="log directory retired|Input/output error",
            )
            with cluster:
                self._play(cluster, disk)
        finally:
            for stream in self._streams:
                stream.close()
            disk.close()
        self.summary.seconds = time.monotonic() - started
        return self.summary

    def _play(self, cluster: LocalCluster, disk: Disk) -> None:
        admin = Admin(cluster.bootstrap)
        asyncio.run(_look_after_logs_often(cluster.etcd_endpoint))
        _make_topic_of_groups(admin, disk)
        failures = NodeFailures(cluster, disk, lambda: self._streams, self._chance)
        self._begin_generation(cluster, admin)
        number = 0
        while self.summary.cuts < self._cuts:
            if number and number % GENERATION == 0:
                self._end_generation(cluster, admin, disk)
                self._begin_generation(cluster, admin)
            kind = ORDER[number % len(ORDER)]
            number += 1
            self._live(LEAST_PER_PARTITION)
            before = self._acknowledged()
            cut = failures.end(kind)
            began = time.monotonic()
            failures.begin()
            self._live(1)
            recovery = time.monotonic() - began
            self.summary.add(cut)
            self.summary.recoveries_s.append(recovery)
            verdict = self._look(cluster, disk)
            self._say(
                f"{number:3} {kind:20} {before:7} acknowledged, {cut.lost_bytes:8} bytes lost"
                f"{', in a sync' if cut.during_sync else ''}{', in a roll' if cut.during_roll else ''}"
                f"; back in {recovery:.2f} s, {verdict.read} read"
            )
        self._end_generation(cluster, admin, disk, last=True)

    def _acknowledged(self) -> int:
        """The number of records acknowledged in this life."""
        return sum(
            sum(one[0] == stream.life for one in written.acknowledged) for stream in self._streams for written in stream.written
        )

    def _live(self, least: int) -> None:
        def enough() -> bool:
            failures = [failure for stream in self._streams for failure in stream.failures]
            if failures:
                raise Broken(f"{len(failures)} records were refused, e.g. {failures[:3]}")
            return all(stream.acknowledged_in_this_life() >= least for stream in self._streams)

        eventually(enough, 30.0)
        if least == LEAST_PER_PARTITION:
            self.summary.acknowledged_in_the_leanest_life = min(
                self.summary.acknowledged_in_the_leanest_life, self._acknowledged()
            )

    def _look(self, cluster: LocalCluster, disk: Disk) -> Verdict:
        for stream in self._streams:
            stream.pause()
        eventually(lambda: all(stream.is_quiet for stream in self._streams), 60.0)
        inspector = subprocess.Popen(
            [sys.executable, "-m", "libs.commitlog", "verify", str(disk.at / "logs")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        verdict = read_and_judge(cluster.bootstrap, self._streams)
        said, _ = inspector.communicate(timeout=120)
        self.summary.read += verdict.read
        self.summary.missing += verdict.missing
        if verdict.complaints:
            raise Broken("\n".join(verdict.complaints))
        if inspector.returncode != 0:
            self.summary.findings += 1
            raise Broken(f"the inspector finds:\n{said[-4000:]}")
        for stream in self._streams:
            stream.go()
        return verdict

    def _begin_generation(self, cluster: LocalCluster, admin: Admin) -> None:
        self._generation += 1
        names = {plan: f"{plan.name}.{self._generation}" for plan in PLANS}
        admin.create_all([NewTopic(name, plan.partitions, -1, config=dict(plan.config)) for plan, name in names.items()])
        self._streams = [Stream(cluster.bootstrap, name, plan) for plan, name in names.items()]
        for stream in self._streams:
            stream.go()

    def _end_generation(self, cluster: LocalCluster, admin: Admin, disk: Disk, *, last: bool = False) -> None:
        verdict = self._look(cluster, disk)
        self.summary.acknowledged += sum(stream.acknowledged for stream in self._streams)
        self.summary.stored_twice_by_retries += verdict.twice
        self.summary.replicated_lost += verdict.lost
        ended, self._streams = self._streams, []
        for stream in ended:
            stream.close()
        if last:
            os.kill(cluster.pid(NODE), signal.SIGTERM)
            eventually(lambda: not cluster.is_running(NODE))
            self._dump(disk)
        else:
            for stream in ended:
                admin.delete(stream.topic)

    def _dump(self, disk: Disk) -> None:
        """Kafka's own tool reads every file that is left."""
        logs = list(disk.log_files())
        others = [path.removesuffix(".log") + suffix for path in logs for suffix in (".index", ".timeindex")]
        for files, options in ((logs, ("--deep-iteration",)), (others, ("--index-sanity-check",))):
            done = run_tool("kafka-dump-log", *options, "--files", ",".join(files), timeout_s=300, check=False)
            said = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
            wrong = [
                line
                for line in said.splitlines()
                if any(word in line.lower() for word in COMPLAINTS)
                and "payload" not in line
                and not ("Non-consecutive" in line and "/compacted." in line)  # which compaction makes, Kafka's too
            ]
            if done.returncode or wrong:
                self.summary.findings += 1
                raise Broken(f"Kafka's tool says {done.returncode}, {wrong[:5]}")


def _make_topic_of_groups(admin: Admin, disk: Disk) -> None:
    """Before the inspector looks: else the first reader brings it about, and half of its logs are still without a file."""
    admin.client.list_topics(OFFSETS, timeout=REQUEST_S)
    count = eventually(lambda: admin.partition_count(OFFSETS) if OFFSETS in admin.names() else 0)
    eventually(lambda: len({path.parent for path in disk.at.glob(f"logs/{OFFSETS}-*/*.log")}) == count, 60.0)


async def _look_after_logs_often(etcd: str) -> None:
    """Lets retention and the cleaner run often. As in Kafka, no client may set these while a node runs."""
    store = EtcdStore([etcd])
    try:
        names = ("log.retention.check.interval.ms", "log.cleaner.backoff.ms", "log.segment.delete.delay.ms")
        await store.txn([], [Put(keys.config("broker", ""), encode(ConfigOverrides(dict.fromkeys(names, "100"))))])
    finally:
        await store.close()
