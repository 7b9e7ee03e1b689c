"""The cost of upkeep to producers: the same load with and without compaction and retention beside it, on both systems.

Short halves take turns, the order too, and a ratio is that of two neighbours. In the half with upkeep the cleaner is at work from
before its beginning until after its end, and retention takes segments away: a pair where that is not so does not count, and too
few that count are an error. Two cores are shared by the load, the servers and the cleaner, so some loss is the machine's: what a
warm Kafka loses, whose cleaner is on too, says how much.
"""

import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.bench import frames, load
from tests.bench.cases import KIB
from tests.bench.cpu import cpu_of
from tests.bench.log_figures import MB, keyed_batches
from tests.bench.sides import Side
from tests.compat.kafka.broker import KafkaBroker
from tests.support.cluster_harness import LocalCluster

CONNECTIONS = 4
MIB = 1024 * KIB
DIRTY_BYTES, VALUE_BYTES = 320 * MIB, 100
SHORT_BYTES = 64 * MIB
LATER_MS = 10 * 365 * 86_400_000
WARM_S = 15.0
FRONT = {"segment.bytes": str(1024**3)}
DIRTY = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": str(LATER_MS),
    "segment.bytes": str(16 * MIB),
}
SHORT = {"retention.bytes": "-1", "segment.bytes": str(MIB), "file.delete.delay.ms": "500"}
BROKER = {
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "1000",
}


@dataclass
class Subject:
    side: Side
    cleans: Callable[[str], bool]
    """Whether that topic's log is being cleaned now."""
    ratios: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    cpu_alone_us: list[float] = field(default_factory=list)
    cpu_beside_us: list[float] = field(default_factory=list)
    uncounted: int = 0


def background(pairs: int = 12, seconds: float = 1.5) -> list[dict[str, object]]:
    dirty = [batch for batch, _ in keyed_batches(VALUE_BYTES, DIRTY_BYTES)]
    with _penstock() as ours, _kafka() as theirs:
        subjects = (ours, theirs)
        for subject in subjects:
            _warm(subject)
        for turn in range(-1, pairs):
            for subject in subjects if turn % 2 else reversed(subjects):
                _pair(subject, turn, dirty, seconds)
    for subject in subjects:
        assert len(subject.ratios) >= pairs // 2, f"{subject.side.name}: the cleaner was too quick in {subject.uncounted} pairs"
    return [
        {
            "name": "produce-beside-compaction",
            "penstock": round(statistics.median(ours.ratios), 3),
            "kafka": round(statistics.median(theirs.ratios), 3),
            "unit": "× the same load alone",
            "mark": "within noise",
            "durability": {subject.side.name: subject.side.durability for subject in subjects},
            "cpu_us": {
                subject.side.name: {"servers": round(statistics.median(subject.cpu_beside_us), 1)} for subject in subjects
            },
            "details": {subject.side.name: _details(subject) for subject in subjects},
            "settings": (
                f"raw Produce, acks=1, 16 KiB batches, {CONNECTIONS} connections; beside it a log of {DIRTY_BYTES // MIB} MiB "
                f"with values of {VALUE_BYTES} B is compacted all the time and another cut by size; halves of {seconds} s; CPU "
                "without the child that cleans, but with Kafka's thread that does"
            ),
        }
    ]


def _details(subject: Subject) -> dict[str, object]:
    """Each with what it is without upkeep, and the ratios one by one."""
    return {
        "median_90%": [round(bound, 3) for bound in _bounds(subject.ratios)],
        "ratios": [round(ratio, 2) for ratio in subject.ratios],
        "mb_per_s": [round(statistics.median(rates), 1) for rates in (subject.alone, subject.beside)],
        "cpu_us": [round(statistics.median(costs), 1) for costs in (subject.cpu_alone_us, subject.cpu_beside_us)],
        "uncounted": subject.uncounted,
    }


def _bounds(ratios: list[float]) -> tuple[float, float]:
    """Between which the median lies, by drawing again from what was measured."""
    choose = random.Random(1)
    medians = sorted(statistics.median(choose.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[100], medians[1900]


# --- the two


@contextmanager
def _penstock() -> Iterator[Subject]:
    told = ",".join(f"{name}={value}" for name, value in BROKER.items())
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as root,
        LocalCluster(Path(root), storage=1, environment_of={"storage-1": {"PENSTOCK_BROKER_CONFIGS": told}}) as cluster,
    ):

        def cleans(topic: str) -> bool:
            running = json.loads(cluster.admin("storage-1", "/debug/cleaner"))["running"]
            return any(run["partition"] == f"{topic}-0" for run in running)

        pids = {name: cluster.pid(name) for name in ("gateway-1", "storage-1")}
        logs = cluster.data_directory("storage-1") / "logs"
        yield Subject(Side("penstock", cluster.bootstrap, {"durability": "replicated"}, "replicated", pids, logs), cleans)


@contextmanager
def _kafka() -> Iterator[Subject]:
    options = ("-Dcleaner.level=info",)
    with (
        tempfile.TemporaryDirectory(prefix="kafka-bench-") as root,
        KafkaBroker(Path(root), properties={**BROKER, "log.cleaner.threads": "1"}, options=options) as broker,
    ):

        def cleans(topic: str) -> bool:
            told = broker.log()
            return f"Beginning cleaning of log {topic}-0" in told and f"cleaned log {topic}-0" not in told

        yield Subject(Side("kafka", broker.bootstrap, {}, "page cache", {"broker": broker.pid}, broker.log_directory), cleans)


# --- one pair


def _warm(subject: Subject) -> None:
    subject.side.create_topic("warm", CONNECTIONS, FRONT)
    _load(subject, "warm", WARM_S)
    subject.side.delete_topic("warm")


def _pair(subject: Subject, turn: int, dirty: list[bytes], seconds: float) -> None:
    """The first is uncounted: what has never run yet does then."""
    side, work, short, front = subject.side, f"dirty-{turn + 1}", f"short-{turn + 1}", f"front-{turn + 1}"
    _wait(lambda: not any(path.name.endswith("-delete") for path in side.log_directory.iterdir()), "deleted logs stay")
    side.create_topic(front, CONNECTIONS, FRONT)
    side.create_topic(work, 1, DIRTY)
    load.produce_each(side.leaders(work)[0], work, dirty, frames.produce_error_position(work))
    side.create_topic(short, 1, SHORT)
    _fill(side, short)
    os.sync()  # what was just written is not written back beside either half
    if turn % 2:
        alone = _load(subject, front, seconds)
    segments = len(list((side.log_directory / f"{short}-0").glob("*.log")))
    _configure(side, work, "min.compaction.lag.ms", "0")
    _wait(lambda: subject.cleans(work), "nothing is cleaned")
    _configure(side, short, "retention.bytes", str(MIB))
    beside = _load(subject, front, seconds)
    was_at_work = subject.cleans(work)
    was_cut = len(list((side.log_directory / f"{short}-0").glob("*.log"))) < segments
    side.delete_topic(work)
    _wait(lambda: not (side.log_directory / f"{work}-0").exists(), "the dirty log stays")
    if not turn % 2:
        alone = _load(subject, front, seconds)
    side.delete_topic(short)
    side.delete_topic(front)
    if turn < 0:
        return
    if not (was_at_work and was_cut):
        subject.uncounted += 1
        return
    subject.ratios.append(beside[0] / alone[0])
    subject.alone.append(alone[0])
    subject.beside.append(beside[0])
    subject.cpu_alone_us.append(alone[1])
    subject.cpu_beside_us.append(beside[1])


def _load(subject: Subject, topic: str, seconds: float) -> tuple[float, float]:
    """MB/s, and CPU microseconds of its servers a request."""
    batch, _ = frames.batch_of_about(16 * KIB, 1000, time.time_ns() // MB)
    leaders = subject.side.leaders(topic)
    targets = [(leader, frames.produce_frame(topic, index, batch, 1)) for index, leader in enumerate(leaders)]
    before = sum(cpu_of(subject.side.pids).values())
    done = load.produce(targets, frames.produce_error_position(topic), len(batch), 5, seconds, 1 << 40)
    return done.megabytes_per_s, (sum(cpu_of(subject.side.pids).values()) - before) * 1e6 / done.requests


def _fill(side: Side, topic: str) -> None:
    batch, _ = frames.batch_of_about(16 * KIB, 1000, time.time_ns() // MB)
    target = (side.leaders(topic)[0], frames.produce_frame(topic, 0, batch, 1))
    load.produce([target], frames.produce_error_position(topic), len(batch), 5, 60, SHORT_BYTES)


def _configure(side: Side, topic: str, name: str, value: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    side.admin.incremental_alter_configs([resource])[resource].result(30)


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
