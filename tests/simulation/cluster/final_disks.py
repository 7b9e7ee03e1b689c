"""The contents of a storage node's disk when a run ends, after one more power cut: recovered, recovered again, rebuilt.

14: a recovery of what a recovery left finds the same. 12: so does one that has nothing but the batches.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from libs.commitlog.files.file_names import LOG
from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import LogDamaged
from libs.commitlog.model.log_checkpoints import LogCheckpoints
from libs.commitlog.partition_log.directory import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from libs.commitlog.partition_log.log import Log
from libs.commitlog.partition_log.recovery_job import OpenLogRequest
from libs.commitlog.segments.segment import FileRegistry
from services.storage.disks.disks import Scanned, scan
from tests.simulation.checks import Broken, check_segment
from tests.simulation.cluster.invariants import hosted_by
from tests.simulation.cluster.processes import StorageProcess
from tests.simulation.cluster.world import World
from tests.simulation.disk import SimulatedDisk
from tests.simulation.node import StillClock

PATH = "/data/logs"
METADATA = "partition.metadata"
Configs = Mapping[tuple[str, int], LogConfig]
"""By topic and index."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """The recovered state of one log."""

    start: int
    end: int
    content: str
    epochs: tuple[tuple[int, int], ...]
    """Those that wrote something."""
    producers: Mapping[int, tuple[int, int]]
    """Producer id → epoch and last sequence."""


def look_at_disks(world: World, storage: Sequence[StorageProcess], compacted: Sequence[str], producers_expire_s: float) -> None:
    logging.disable(logging.CRITICAL)
    try:
        for process in storage:
            configs = {(partition.topic, key[1]): partition.log.config for key, partition, _ in hosted_by(process)}
            left = process.disk.crashed(world.stream(f"last of {process.host}"))
            try:
                some_expired = process.longest_life_s >= producers_expire_s
                found = _differences(left, process.node_id, configs, compacted, some_expired=some_expired)
            except (Broken, LogDamaged) as error:
                found = [f"12: {error}"]
            for what in found:
                world.violation(f"{process.host}: {what}")
    finally:
        logging.disable(logging.NOTSET)


def _differences(
    left: SimulatedDisk, node_id: int, configs: Configs, compacted: Sequence[str], *, some_expired: bool
) -> list[str]:
    first = _recovered(left, node_id, configs)
    again, bare = left.as_left_by_a_kill(), left.as_left_by_a_kill()
    _strip(bare, compacted)
    found = differences("14: recovered twice", first, _recovered(again, node_id, configs))
    rebuilt = _recovered(bare, node_id, configs)
    return found + differences("12: made again of its batches", first, rebuilt, some_expired=some_expired)


def differences(
    what: str, before: Mapping[str, Recovered], after: Mapping[str, Recovered], *, some_expired: bool = False
) -> list[str]:
    """The logs of `before` that differ in `after`, each in words.

    `some_expired`: `before` may have forgotten silent producers, whose batches `after` has read again.
    """
    found = []
    for name, one in before.items():
        other = after.get(name)
        if other is not None and some_expired:
            known = {producer_id: state for producer_id, state in other.producers.items() if producer_id in one.producers}
            other = replace(other, producers=known)
        if other != one:
            found.append(f"{what}, {name} is {other}, and was {one}")
    return found


def _recovered(disk: SimulatedDisk, node_id: int, configs: Configs) -> dict[str, Recovered]:
    scanned = scan(PATH, disk, new_id=b"n" * 16, node_id=node_id, cluster_id="")
    registry = FileRegistry()
    found: dict[str, Recovered] = {}
    for one in scanned.directory.list_partitions():
        config = configs.get((one.topic, one.partition))
        if config is None:
            continue  # its topic is gone
        log = _how_to_open(scanned, one, config, disk).open(registry, StillClock())
        for segment in log.segments:
            check_segment(segment, disk)
        found[one.path] = _read(log, disk)
        log.close(clean=False)
    scanned.directory.close()
    return found


def _how_to_open(scanned: Scanned, one: Any, config: LogConfig, disk: SimulatedDisk) -> OpenLogRequest:
    key = one.topic_id, one.partition
    checkpoints = scanned.checkpoints
    lost = scanned.lost.get((one.topic, one.partition))
    committed = checkpoints[HIGH_WATERMARKS].get(key, 0)
    log_checkpoints = LogCheckpoints(
        clean=scanned.directory.was_clean,
        recovery_point=checkpoints[RECOVERY_POINTS].get(key, 0),
        log_start_offset=checkpoints[LOG_START_OFFSETS].get(key, 0),
        committed_offset=lost.offset if lost is not None and lost.is_of(one.topic_id) else committed,
        is_start_known=scanned.is_start_known or key in checkpoints[LOG_START_OFFSETS],
    )
    return OpenLogRequest(one.path, one.topic, one.partition, config, disk, log_checkpoints)


def _read(log: Log, disk: SimulatedDisk) -> Recovered:
    digest = hashlib.sha256()
    for segment in log.segments:
        digest.update(disk.pread(segment.file.handle.fd, segment.size, 0))
    epochs = log.epochs.entries()
    ends = [*[start for _, start in epochs], log.log_end_offset][1:]
    written = tuple(entry for entry, end in zip(epochs, ends, strict=True) if max(entry[1], log.log_start_offset) < end)
    producers = {
        producer_id: (entry.epoch, entry.batches[-1].last_sequence if entry.batches else -1)
        for producer_id, entry in sorted(log.producers.entries.items())
    }
    return Recovered(log.log_start_offset, log.log_end_offset, digest.hexdigest(), written, producers)


def _strip(disk: SimulatedDisk, compacted: Sequence[str]) -> None:
    """Leaves of each log its batches, and whose they are. What compaction took is known from other files."""
    for name in disk.list_directory(PATH):
        folder = f"{PATH}/{name}"
        if name.rpartition("-")[0] not in compacted and disk.exists(f"{folder}/{METADATA}"):
            for file in disk.list_directory(folder):
                if not file.endswith(LOG) and file != METADATA:
                    disk.unlink(f"{folder}/{file}")
