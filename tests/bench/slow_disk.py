"""What a disk that takes a second for each read does to other partitions: `python -m tests.bench.slow_disk`, JSON lines.

    [--pairs 8] [--seconds 5] [--rate 200] [--readers 8] [--durability replicated|synced]

One storage node with a log directory on such a disk (`slow_image.py`, an ext4 on a loop device), and one on the machine's own.
It takes root, a loop device and libfuse 3. Producers write at a fixed rate to a partition on each, alone and while consumers read
a third partition, which lies on the slow disk and not in the page cache. Halves take turns. A pair in which no fetch waited for
the disk is an error.
"""

import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench import frames, load
from tests.bench.cases import KIB
from tests.bench.page_cache import drop_cached
from tests.bench.sides import Side
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

READ_S = 1.0
IMAGE_MIB, COLD_MIB = 768, 96
SEGMENT_BYTES = 32 << 20
FETCH_BYTES = 64 * KIB
TOPICS_MAX = 20
KAFKA_STORAGE_ERROR = 56


@dataclass
class Case:
    """A partition that nobody reads, and the p99 of its producer in ms."""

    name: str
    topic: str
    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class SlowDisk:
    at: Path
    flag: Path

    @contextmanager
    def slow(self) -> Iterator[None]:
        self.flag.touch()
        try:
            yield
        finally:
            self.flag.unlink()


@contextmanager
def slow_disk(directory: Path) -> Iterator[SlowDisk]:
    image, mount, at, flag = (directory / name for name in ("image", "mount", "disk", "slow"))
    mount.mkdir()
    at.mkdir()
    image.touch()
    os.truncate(image, IMAGE_MIB << 20)
    _run("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))
    command = [sys.executable, "-m", "tests.bench.slow_image", str(image), str(mount), str(flag), "--seconds", str(READ_S)]
    with subprocess.Popen(command) as server:
        try:
            eventually(lambda: (mount / "disk.img").exists(), 20)
            _run("mount", "-o", "loop", str(mount / "disk.img"), str(at))
            try:
                yield SlowDisk(at, flag)
            finally:
                _run("umount", "-l", str(at))
        finally:
            _run("umount", "-l", str(mount))
            server.wait(20)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=60)


def measured(pairs: int, seconds: float, rate: float, readers: int, durability: str) -> Iterator[dict[str, object]]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as root:
        quick = Path(root) / "quick"
        with slow_disk(Path(root)) as disk:
            directories = {"PENSTOCK_LOG_DIRS": f"{quick},{disk.at / 'logs'}"}
            with LocalCluster(Path(root) / "cluster", environment_of={"storage-1": directories}) as cluster:
                side = Side("penstock", cluster.bootstrap, {"durability": durability, "segment.bytes": str(SEGMENT_BYTES)})
                placed = _topics(side, disk, quick)
                cases = [Case("another-disk", placed[quick][0]), Case("the-same-disk", placed[disk.at / "logs"][0])]
                cold = placed[disk.at / "logs"][1]
                offsets = _filled(side, cold)
                waited = 0
                for pair in range(-1, pairs):
                    for case in cases:
                        waited += _pair(side, disk, case, cold, offsets, seconds=seconds, rate=rate, readers=readers, turn=pair)
    for case in cases:
        ratios = sorted(beside / alone for alone, beside in zip(case.alone, case.beside, strict=True))
        yield {
            "name": f"produce-p99-beside-a-slow-disk-{case.name}",
            "penstock": round(statistics.median(case.beside), 2),
            "alone": round(statistics.median(case.alone), 2),
            "ratio": round(statistics.median(ratios), 3),
            "ratio_min": round(ratios[0], 3),
            "ratio_max": round(ratios[-1], 3),
            "unit": "ms",
            "mark": "1.2",
            "durability": durability,
            "slow_fetches": waited,
            "settings": f"{rate:.0f} batches of 1 KB a second, {readers} cold consumers, {READ_S:.0f} s a read, {seconds} s",
        }


def _topics(side: Side, disk: SlowDisk, quick: Path) -> dict[Path, list[str]]:
    """One topic on the quick disk, two on the slow one."""
    placed: dict[Path, list[str]] = {quick: [], disk.at / "logs": []}
    for number in range(TOPICS_MAX):
        topic = f"t{number}"
        side.create_topic(topic, 1)
        (home,) = eventually(lambda: [path for path in placed if (path / f"{topic}-0").exists()], 20)  # noqa: B023
        placed[home].append(topic)
        if len(placed[quick]) >= 1 and len(placed[disk.at / "logs"]) >= 2:
            return placed
    raise RuntimeError(f"all of {TOPICS_MAX} topics lie on one disk")


def _filled(side: Side, topic: str) -> list[int]:
    """Fills a topic; returns the offsets at which batches begin."""
    batch, records = frames.batch_of_about(64 * KIB, 1000, time.time_ns() // 1_000_000)
    count = (COLD_MIB << 20) // len(batch)
    load.produce_each(side.leaders(topic)[0], topic, [batch] * count, frames.produce_error_position(topic))
    return [number * records for number in range(count)]


def _pair(
    side: Side, disk: SlowDisk, case: Case, cold: str, offsets: list[int], *, seconds: float, rate: float, readers: int, turn: int
) -> int:
    """The number of fetches that waited for the disk. The first pair is not counted: it warms up."""

    def p99(seconds: float) -> float:
        batch, _ = frames.batch_of_about(KIB, 1000, time.time_ns() // 1_000_000)
        frame = frames.produce_frame(case.topic, 0, batch, -1)
        position = frames.produce_error_position(case.topic)
        return load.latency_at(side.leaders(case.topic)[0], frame, position, rate, seconds).p99_ms

    def beside() -> tuple[float, int]:
        drop_cached([disk.at / "logs" / f"{cold}-0"])
        address = side.leaders(cold)[0]
        with disk.slow(), ThreadPoolExecutor(readers) as consumers:
            mixed = [random.Random(1000 * turn + number).sample(offsets, len(offsets)) for number in range(readers)]
            reading = [consumers.submit(_consume, address, cold, mixed[number], seconds) for number in range(readers)]
            found = p99(seconds)
            waited = sum(each.result() for each in reading)
        os.sync()  # the reads that the disk began go on
        if not waited:
            raise RuntimeError("no fetch waited for the disk")
        return found, waited

    if turn % 2:
        alone = p99(seconds)
        slow, waited = beside()
    else:
        slow, waited = beside()
        alone = p99(seconds)
    if turn >= 0:
        case.alone.append(alone)
        case.beside.append(slow)
    return waited


def _consume(address: load.Address, topic: str, offsets: list[int], seconds: float) -> int:
    """Fetches from one offset after the other, for so long. The number of fetches that waited for the disk."""
    fetch, position, waited = frames.fetch_frame(topic, 0, FETCH_BYTES), frames.fetch_error_position(topic), 0
    frame, sock, ends = bytearray(fetch.frame), load.connect(address), time.monotonic() + seconds
    with sock:
        for offset in offsets:
            begun = time.monotonic()
            if begun > ends:
                break
            struct.pack_into(">q", frame, fetch.offset_position, offset)
            sock.sendall(frame)
            error = load.error_at(position)(load.read_frame(sock))
            if error not in (0, KAFKA_STORAGE_ERROR):  # the latter: the disk took longer than a fetch waits
                raise load.BenchError(f"a fetch was answered with error {error}")
            waited += time.monotonic() - begun >= READ_S
    return waited


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--durability", choices=("replicated", "synced"), default="replicated")
    options = parser.parse_args()
    for figure in measured(options.pairs, options.seconds, options.rate, options.readers, options.durability):
        print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()
