"""What producers feel while logs are compacted and cut short beside them: the same load with and without, in turn."""

import json
import statistics
import tempfile
import time
from pathlib import Path

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.bench import frames, load
from tests.bench.cases import KIB
from tests.bench.log_figures import MB, keyed_batches
from tests.bench.sides import Side
from tests.cluster_harness import LocalCluster

CONNECTIONS = 4
DIRTY_BYTES = 384 * 1024 * KIB
LATER_MS = 10 * 365 * 86_400_000
FRONT = {"segment.bytes": str(1024**3), "durability": "replicated"}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": str(64 * 1024**2),
    "durability": "replicated",
}
SHORT = {"retention.bytes": str(64 * 1024**2), "segment.bytes": str(16 * 1024**2), "durability": "replicated"}


def background(pairs: int = 6, seconds: float = 3.0) -> list[dict[str, object]]:
    """Rounds of produce; in every second one the cleaner and retention have work for all of it."""
    told = {"storage-1": {"PENSTOCK_BROKER_CONFIGS": "log.cleaner.backoff.ms=100,log.retention.check.interval.ms=1000"}}
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as root,
        LocalCluster(Path(root), storage=1, environment_of=told) as cluster,
    ):
        side = Side("penstock", cluster.bootstrap)
        side.create_topic("front", CONNECTIONS, FRONT)
        side.create_topic("short", 1, SHORT)
        batch, _ = frames.batch_of_about(16 * KIB, 1000, time.time_ns() // MB)
        targets = [(leader, frames.produce_frame("front", index, batch, 1)) for index, leader in enumerate(side.leaders("front"))]
        position = frames.produce_error_position("front")
        load.produce(targets, position, len(batch), 5, seconds, 1 << 40)
        alone, beside, cleaned = [], [], []
        for turn in range(pairs):
            alone.append(load.produce(targets, position, len(batch), 5, seconds, 1 << 40).megabytes_per_s)
            topic = f"dirty-{turn}"
            _make_work(side, topic)
            _may_be_cleaned(side, topic)
            _wait_until_it_runs(cluster)
            beside.append(load.produce(targets, position, len(batch), 5, seconds, 1 << 40).megabytes_per_s)
            cleaned.append(_bytes_read(cluster))
            side.delete_topic(topic)
            _wait_until_it_rests(cluster)
    ratios = sorted(busy / quiet for busy, quiet in zip(beside, alone, strict=True))
    return [
        {
            "name": "produce-beside-compaction",
            "penstock": round(statistics.median(beside), 1),
            "alone": round(statistics.median(alone), 1),
            "ratio": round(statistics.median(ratios), 3),
            "ratio_min": round(ratios[0], 3),
            "ratio_max": round(ratios[-1], 3),
            "unit": "MB/s",
            "mark": "within noise",
            "cleaned_mb": [round(size / MB) for size in cleaned],
            "settings": (
                f"raw Produce, acks=1, 16 KiB batches, {CONNECTIONS} connections, replicated; beside it a log of "
                f"{DIRTY_BYTES // MB} MB is compacted and another cut by size; the ratio is to the same load alone"
            ),
        }
    ]


def _make_work(side: Side, topic: str) -> None:
    """A dirty log that may not be cleaned yet, and a log that is longer than it may be."""
    side.create_topic(topic, 1, {**COMPACTED, "min.compaction.lag.ms": str(LATER_MS)})
    batches = [batch for batch, _ in keyed_batches(1000, DIRTY_BYTES)]
    load.produce_each(side.leaders(topic)[0], topic, batches, frames.produce_error_position(topic))
    short, _ = frames.batch_of_about(16 * KIB, 1000, time.time_ns() // MB)
    frame = frames.produce_frame("short", 0, short, 1)
    load.produce([(side.leaders("short")[0], frame)], frames.produce_error_position("short"), len(short), 5, 30, DIRTY_BYTES)


def _may_be_cleaned(side: Side, topic: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    resource.add_incremental_config(ConfigEntry("min.compaction.lag.ms", "0", incremental_operation=AlterConfigOpType.SET))
    side.admin.incremental_alter_configs([resource])[resource].result(30)


def _cleaner(cluster: LocalCluster) -> list[dict[str, object]]:
    running: list[dict[str, object]] = json.loads(cluster.admin("storage-1", "/debug/cleaner"))["running"]
    return running


def _bytes_read(cluster: LocalCluster) -> int:
    """By the run that goes on; 0 if it has ended, which makes the round worth less."""
    return sum(int(str(run.get("bytes_read", 0))) for run in _cleaner(cluster))


def _wait_until_it_runs(cluster: LocalCluster) -> None:
    deadline = time.monotonic() + 30
    while not _cleaner(cluster):
        assert time.monotonic() < deadline, "nothing is cleaned"


def _wait_until_it_rests(cluster: LocalCluster) -> None:
    deadline = time.monotonic() + 60
    while _cleaner(cluster):
        assert time.monotonic() < deadline, "a deleted log is still being cleaned"
