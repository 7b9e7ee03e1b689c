"""Many partitions on one storage node: how soon it serves them after a clean stop, and what each costs while nobody asks for it.

Each figure comes from a process of its own: `python -m tests.bench.partitions LOG_DIRECTORY COUNT` starts a storage node over a
store in memory, with the descriptors that a container may have, and prints what it found.
"""

import asyncio
import gc
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from libs.clock import SystemClock
from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import InSync, PartitionState, Replica, Topic
from libs.commitlog.checkpoints.offset_checkpoint import Entry
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.model.config import LogConfig
from libs.commitlog.partition_log.directory import HIGH_WATERMARKS, RECOVERY_POINTS, LogDirectory
from libs.commitlog.partition_log.log import BatchMeta, Log
from libs.commitlog.segments.segment import FileRegistry
from libs.wire.record_batches.batches import BatchHeader
from tests.bench.own_figure import own_figure
from tests.storage.cluster import NODE_ID, StorageCluster, batch

COUNT = 10_000
DESCRIPTORS = 4096
TOPIC, TOPIC_ID = "many", (1).to_bytes(16, "big")
START_S_MAX = 600.0


class NoWaiting(OsFileSystem):
    """Nothing of it has to survive anything."""

    def fdatasync(self, fd: int) -> None:
        pass

    def fsync_directory(self, path: str) -> None:
        pass

    def sync_all(self, path: str) -> None:
        pass


def make_partitions(path: Path, count: int) -> None:
    """A log directory as a clean stop leaves it: `count` partitions of one topic, each with one small segment."""
    fs = NoWaiting()
    directory = LogDirectory.open(str(path), fs, new_id=bytes(15) + b"\1", node_id=NODE_ID, cluster_id="test-cluster")
    model = ""
    for index in range(count):
        if index == 0:
            model = directory.create_partition(TOPIC, index, TOPIC_ID)
            _fill(model, fs)
        else:
            shutil.copytree(model, directory.partition_path(TOPIC, index))
    for name in (HIGH_WATERMARKS, RECOVERY_POINTS):
        directory.write_checkpoint(name, {(TOPIC, index): Entry(1) for index in range(count)})
    directory.mark_clean()
    directory.close()


def _fill(path: str, fs: OsFileSystem) -> None:
    log = Log.open(path, TOPIC, 0, LogConfig(), fs, registry=FileRegistry(), clock=SystemClock())
    log.epochs.assign(0, 0)
    content = bytearray(batch(b"x" * 1000))
    header = BatchHeader.at(content)
    log.append([content], [BatchMeta(0, 0, header.size, header.max_timestamp, 0, 0)])
    log.close(clean=True)


def many_partitions(count: int = COUNT) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root:
        path = Path(root) / "logs"
        make_partitions(path, count)
        found = _measured(path, count)
        settings = f"{count} idle partitions of one small segment on one storage node, at most {DESCRIPTORS} descriptors"
        per_partition_kb = (found["rss_kb"] - found["rss_before_kb"]) / count
        return [
            own_figure("clean-start", found["start_s"], "s", "≤ 5 s", settings),
            own_figure("memory-per-idle-partition", per_partition_kb, "KB (RSS)", "≤ 20 KB", settings),
            own_figure("descriptors-of-idle-partitions", found["descriptors"], "open", f"< {DESCRIPTORS}", settings),
            own_figure("mappings-of-idle-partitions", found["mappings"], "mapped", "< 65530", settings),
        ]


def _measured(path: Path, count: int) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.partitions", str(path), str(count)]
    done = subprocess.run(command, check=True, capture_output=True, timeout=2 * START_S_MAX)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


async def _run(path: Path, count: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as sockets:
        cluster = StorageCluster(path, Path(sockets), OsFileSystem())
        cluster.config = replace(cluster.config, data_dir=sockets, log_dirs=(str(path),))
        await _describe(cluster, count)
        gc.collect()
        before = _rss_kb()
        started = time.perf_counter()
        node = await cluster.start(wait_s=START_S_MAX)
        start_s = time.perf_counter() - started
        led = len(node.partitions.by_key)
        assert led == count, f"{led} partitions of {count} are open"
        await asyncio.sleep(2.0)  # idle: what the start asked of the disks is done
        gc.collect()
        found = {
            "start_s": start_s,
            "rss_before_kb": before,
            "rss_kb": _rss_kb(),
            "descriptors": float(len(os.listdir("/proc/self/fd"))),
            "mappings": _mappings(),
        }
        started = time.perf_counter()
        await cluster.stop()
        found["stop_s"] = time.perf_counter() - started
        await cluster.store.close()
        return found


async def _describe(cluster: StorageCluster, count: int) -> None:
    """The states that the controller would have written: this node leads all, with the incarnation that it is about to have."""
    for index in range(count):
        state = PartitionState((Replica(NODE_ID, ""),), NODE_ID, 1, 0, 0, (InSync(NODE_ID, 1),))
        await cluster.write(keys.partition(TOPIC_ID, index), encode(state))
    await cluster.write(keys.topic(TOPIC), encode(Topic(TOPIC, TOPIC_ID.hex(), count)))


def _mappings() -> float:
    return float(len(Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()))


def _rss_kb() -> float:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    return float(fields["VmRSS"].split()[0])


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    print(json.dumps(asyncio.run(_run(Path(sys.argv[1]), int(sys.argv[2])))))
