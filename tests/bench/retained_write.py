"""Much written through a node whose `retention.bytes` keeps little of it: `python -m tests.bench.retained_write`, JSON lines.

    [--gigabytes 20] [--separate] [--durability replicated|synced]

`make bench CASE=retention` writes 20 GB; `--gigabytes 1000` takes no more room on the disk, and an hour. It goes through one
node, or with `--separate` through a storage node behind a gateway. Writes are counted by tenths. A part that does not count
comes first: as long as the page cache takes all there is, and retention has nothing to remove, writes are quicker than they can
stay. The rate of the last tenth should be that of the first, and so should the memory.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.local.cluster_shape import NODE_ROLES, SERVICE_ROLES
from tests.bench.cases import KIB
from tests.bench.lean.cases import IN_FLIGHT, Prepared, prepare_topic
from tests.bench.lean.generator import run_load
from tests.bench.load import BenchError
from tests.bench.own_figure import own_figure
from tests.bench.sides import Side, partition_folders
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

GB, MIB = 10**9, 1024 * KIB
TENTHS = 10
FIRST_BYTES = 8 * GB
"""What does not count: more than may be dirty in the page cache, and more than is retained."""
PARTITIONS, BATCH_BYTES = 4, 128 * KIB
RETAINED_BYTES, SEGMENT_BYTES = 512 * MIB, 128 * MIB
"""Of each partition."""
KEPT_BYTES_MAX = PARTITIONS * (RETAINED_BYTES + 2 * SEGMENT_BYTES)
"""In the end. Segments are removed whole; the one that is written to comes on top."""
KEPT_WITHIN_S = 60.0
TOPIC = {
    "retention.bytes": str(RETAINED_BYTES),
    "retention.ms": "-1",
    "segment.bytes": str(SEGMENT_BYTES),
    "file.delete.delay.ms": "1000",
}
BROKER = "log.retention.check.interval.ms=1000"
TENTH_S_MAX = 24 * 3600.0


@dataclass(frozen=True)
class Part:
    """A tenth of what is written, and how things stand at its end."""

    megabytes_per_s: float
    memory_mb: float
    """Of all processes on the data path."""
    kept_gb: float
    """On the disk, in files of the topic."""


def figures_of(tenths: Sequence[Part], settings: str) -> list[dict[str, object]]:
    first, last = tenths[0], tenths[-1]
    rates = [round(part.megabytes_per_s, 1) for part in tenths]
    memory = [round(part.memory_mb, 1) for part in tenths]
    kept = [round(part.kept_gb, 2) for part in tenths]
    return [
        own_figure(
            "retention-rate",
            last.megabytes_per_s / first.megabytes_per_s,
            "× the first tenth",
            "≥ 0.95",
            f"MB/s in the last tenth; {settings}",
            tenths_mb_per_s=rates,
            kept_gb=kept,
        ),
        own_figure(
            "retention-memory",
            last.memory_mb / first.memory_mb,
            "× the first tenth",
            "≤ 1.1",
            f"memory (Pss) at the end of the last tenth; {settings}",
            memory_mb=memory,
        ),
    ]


def kept_bytes(logs: Path, topic: str) -> int:
    """What the topic's files take on the disk, those that are about to be removed too."""
    total = 0
    for directory in partition_folders(logs, topic):
        for path in directory.iterdir():
            try:
                total += 512 * path.stat().st_blocks
            except FileNotFoundError:
                continue  # removed meanwhile
    return total


def retained_write(
    gigabytes: float = 20.0, *, roles: str = NODE_ROLES, durability: str = "replicated", first_bytes: int = FIRST_BYTES
) -> list[dict[str, object]]:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as root,
        LocalCluster(
            Path(root), storage=1, roles=roles, environment_of={"storage-1": {"PENSTOCK_BROKER_CONFIGS": BROKER}}
        ) as cluster,
    ):
        side = Side("penstock", cluster.bootstrap, {**TOPIC, "durability": durability})
        prepared = prepare_topic(side, "retained", PARTITIONS, PARTITIONS)
        tenths = list(_written(cluster, prepared, gigabytes, first_bytes))
        logs = cluster.data_directory("storage-1") / "logs"
        eventually(lambda: kept_bytes(logs, prepared.topic) <= KEPT_BYTES_MAX, KEPT_WITHIN_S)
    through = "a node" if roles == NODE_ROLES else "a gateway and a storage node"
    return figures_of(
        tenths,
        f"{gigabytes:g} GB in batches of {BATCH_BYTES} B, acks=1, {durability}, {PARTITIONS} connections and partitions through "
        f"{through}, after {first_bytes / GB:g} GB that do not count; retention.bytes={RETAINED_BYTES}, "
        f"segment.bytes={SEGMENT_BYTES}",
    )


def _written(cluster: LocalCluster, prepared: Prepared, gigabytes: float, first_bytes: int) -> Iterator[Part]:
    logs, names = cluster.data_directory("storage-1") / "logs", {cluster.pid(name): name for name in ("gateway-1", "storage-1")}
    for number, size in enumerate((first_bytes, *[int(gigabytes * GB / TENTHS)] * TENTHS)):
        options = {"acks": 1, "in-flight": IN_FLIGHT, "batch-bytes": BATCH_BYTES, "bytes-max": size, "drain": 60}
        loaded = run_load("produce", prepared.topic, prepared.plan, TENTH_S_MAX, options)
        if loaded.bytes < size:
            raise BenchError(f"{loaded.bytes} of {size} bytes were written within {TENTH_S_MAX:.0f} s")
        memory = sum(cluster.memory_bytes(name) for name in names.values())
        part = Part(loaded.bytes / 1e6 / loaded.seconds, memory / 1e6, kept_bytes(logs, prepared.topic) / GB)
        print(f"{loaded.bytes / GB:.1f} GB: {part}", file=sys.stderr)
        if number:
            yield part


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.retained_write")
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--separate", action="store_true", help="a storage node behind a gateway, in place of a node")
    parser.add_argument("--durability", choices=("replicated", "synced"), default="replicated")
    given = parser.parse_args()
    roles = SERVICE_ROLES if given.separate else NODE_ROLES
    for figure in retained_write(given.gigabytes, roles=roles, durability=given.durability):
        print(json.dumps(figure), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
