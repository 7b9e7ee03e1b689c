"""Topics of small segments, and a retention check at once."""

from pathlib import Path
from typing import Any

from libs.commitlog.checkpoints.offset_checkpoint import parse_offsets
from libs.commitlog.partition_log.directory import LOG_START_OFFSETS
from tests.storage.cluster import StorageCluster, batch
from tests.storage.set_clock import SetClock

HOUR = 3_600_000


def now_batch(clock: SetClock, value: bytes = b"x" * 80) -> bytes:
    return batch(value, timestamp=clock.now_ms)


def starts_on_disk(cluster: StorageCluster) -> dict[tuple[str, int], int]:
    path = Path(cluster.config.directories[0]) / LOG_START_OFFSETS
    return parse_offsets(path.read_bytes(), str(path))


def names(path: Path, suffix: str) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if entry.name.endswith(suffix))


async def check(cluster: StorageCluster) -> None:
    assert cluster.node is not None
    await cluster.node.opened.background.retention.check()


async def earliest(cluster: StorageCluster, topic: bytes) -> int:
    return (await cluster.list_offset(topic, -2)).offset


async def make(cluster: StorageCluster, name: str, **configs: Any) -> bytes:
    return await cluster.topic(name, **{"internal_segment_bytes": "300", **configs})
