"""The log directories of this node: locked, identified, scanned; each with its sync scheduler and its worker threads."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from libs.commitlog.config import LogConfig
from libs.commitlog.directory import CLEANED_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, LogDirectory
from libs.commitlog.errors import LogDamaged
from libs.commitlog.filesystem import FileSystem
from libs.commitlog.recovering import HowToOpen
from libs.telemetry.logs import fields
from services.storage.hosted import Key
from services.storage.offload import Offload
from services.storage.sync_scheduler import SyncScheduler

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Scanned:
    """What a log directory held when it was opened."""

    directory: LogDirectory
    paths: dict[Key, str]
    checkpoints: Mapping[str, dict[tuple[str, int], int]]
    """By file name, of the partitions that are here."""
    gone: dict[tuple[str, int], int]
    """Partitions that have no directory here, though they had one, and how far they were durable."""
    is_start_known: bool
    """Whether a log that the checkpoint does not name has not lost its start to retention."""
    buried: list[str]
    """Directories that an earlier process buried and did not come to remove."""
    to_come: set[Key]
    """Partitions that an earlier process was moving here: their logs are where they came from."""


def scan(path: str, fs: FileSystem, *, new_id: bytes, node_id: int, cluster_id: str) -> Scanned:
    """Blocks. Raises DirectoryLocked, DirectoryRetired, DirectoryOfAnother, DirectoryDamaged, OSError."""
    directory = LogDirectory.open(path, fs, new_id=new_id, node_id=node_id, cluster_id=cluster_id)
    partitions = directory.list_partitions()
    here = {(found.topic, found.partition) for found in partitions}
    checkpoints = {
        name: {partition: offset for partition, offset in directory.read_checkpoint(name).items() if partition in here}
        for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS, CLEANED_OFFSETS)
    }
    durable = directory.read_checkpoint(HIGH_WATERMARKS)
    gone = {partition: offset for partition, offset in durable.items() if offset > 0 and partition not in here}
    had_former_self = directory.had_former_selves()
    for partition in [*gone, *checkpoints[HIGH_WATERMARKS]]:
        if had_former_self(*partition):
            gone.pop(partition, None)
            checkpoints[HIGH_WATERMARKS].pop(partition, None)
    is_start_known = directory.find_checkpoint(LOG_START_OFFSETS) is not None
    paths = {(found.topic_id, found.partition): found.path for found in partitions}
    left = directory.scheduled_deletions(), directory.partitions_to_come()
    return Scanned(directory, paths, checkpoints, gone, is_start_known, *left)


@dataclass(slots=True, eq=False)
class Disk:
    """One log directory in use. `files` runs one thing at a time, in order; `logs` are opened, made and closed side by side, and
    `clean_logs` opened."""

    scanned: Scanned
    sync: SyncScheduler
    files: Offload
    logs: Offload
    clean_logs: Offload
    hosted: set[Key] = field(default_factory=set)
    arriving: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    """By checkpoint: what is to stand in it of logs that are about to take their names here."""

    @property
    def directory(self) -> LogDirectory:
        return self.scanned.directory

    @property
    def directory_id(self) -> str:
        return self.directory.directory_id.hex()

    @property
    def path(self) -> str:
        return self.directory.path

    def high_watermark(self, topic: str, index: int) -> int:
        return self.scanned.checkpoints[HIGH_WATERMARKS].get((topic, index), 0)

    @property
    def cleaned_offsets(self) -> dict[tuple[str, int], int]:
        """By (topic, index): up to where a log was compacted. The cleaner keeps it true."""
        return self.scanned.checkpoints[CLEANED_OFFSETS]

    def holds(self, key: Key) -> bool:
        return key in self.scanned.paths

    def unopened(self) -> list[tuple[Key, str]]:
        """(key, topic) of each partition that was found here and that nobody has opened."""
        return [(key, _topic_of(path)) for key, path in self.scanned.paths.items() if key not in self.hosted]

    async def how_to_open(self, key: Key, topic: str, config: LogConfig, fs: FileSystem, moves: int) -> HowToOpen:
        """Makes the partition's directory if there is none, newer than any with fewer `moves`. Raises OSError, LogDamaged,
        DirectoryDamaged."""
        index = key[1]
        path = self.scanned.paths.get(key)
        if path is None:
            await self._clear_the_name(topic, index)
            if (topic, index) in self.scanned.gone:
                await self.logs.submit(partial(self._refuse_if_gone, topic, index, fs))
            path = await self.logs.submit(lambda: self.directory.adopt_partition(topic, index, key[0], moves))
            self.scanned.paths[key] = path
        checkpoints = self.scanned.checkpoints
        committed = checkpoints[HIGH_WATERMARKS].get((topic, index), 0)
        return HowToOpen(
            *(path, topic, index, config, fs),
            clean=self.directory.was_clean,
            recovery_point=checkpoints[RECOVERY_POINTS].get((topic, index), 0),
            log_start_offset=checkpoints[LOG_START_OFFSETS].get((topic, index), 0),
            committed_offset=self.scanned.gone.get((topic, index), committed),
            is_start_known=self.scanned.is_start_known or (topic, index) in checkpoints[LOG_START_OFFSETS],
        )

    def openers_of(self, key: Key) -> Offload:
        """Ask before `how_to_open`: a new log has to be made, and of one that was not closed cleanly much may have to be read."""
        return self.clean_logs if self.directory.was_clean and self.holds(key) else self.logs

    def _refuse_if_gone(self, topic: str, index: int, fs: FileSystem) -> None:
        """What is in a directory that lost only its `partition.metadata` is for the log to judge."""
        path = self.directory.partition_path(topic, index)
        if not fs.exists(path):
            raise LogDamaged(f"{path}: the directory is gone, offsets up to {self.scanned.gone[topic, index] - 1} were synced")

    def opened(self, key: Key, topic: str) -> None:
        self.hosted.add(key)
        self.scanned.gone.pop((topic, key[1]), None)

    async def make_room_for(self, topic: str, index: int, topic_id: bytes) -> None:
        """Whatever bears the partition's name here is no partition of this node: it is kept like any stray. Raises OSError."""
        await self._clear_the_name(topic, index)

        def work() -> None:
            try:
                path = self.directory.set_aside(topic, index, topic_id)
            except FileNotFoundError:
                return
            log.warning("directory makes room, remove it if nobody misses it", extra=fields(path=path))

        await self.files.submit(work)

    def arrived(self, key: Key, topic: str) -> None:
        """Its log was copied here, is open, and bears its name."""
        self.hosted.add(key)
        self.scanned.paths[key] = self.directory.partition_path(topic, key[1])
        self.scanned.gone.pop((topic, key[1]), None)
        self.forget_arriving(topic, key[1])

    def forget_arriving(self, topic: str, index: int) -> None:
        for offsets in self.arriving.values():
            offsets.pop((topic, index), None)

    async def _clear_the_name(self, topic: str, index: int) -> None:
        """A stray of the same name, but of another topic id, makes room. It is kept like any stray: its topic was deleted while
        this node was down, or else the metadata that knew of it was lost."""
        path = self.directory.partition_path(topic, index)
        stray = next((key for key, found in self.scanned.paths.items() if found == path), None)
        if stray is not None:
            aside = await self.set_aside(stray, topic)
            log.warning("stray partition makes room, remove it if nobody misses it", extra=fields(path=aside))

    async def bury(self, key: Key, topic: str) -> str:
        """The partition's name is free when this returns; its files are below the returned path, for `remove`."""
        self._forget(key, topic)
        return await self.files.submit(lambda: self.directory.schedule_deletion(topic, key[1], key[0]))

    async def set_aside(self, key: Key, topic: str) -> str:
        """The partition's name is free when this returns; its files stay below the returned path."""
        self._forget(key, topic)
        return await self.files.submit(lambda: self.directory.set_aside(topic, key[1], key[0]))

    def _forget(self, key: Key, topic: str) -> None:
        self.hosted.discard(key)
        self.scanned.paths.pop(key, None)
        for offsets in (*self.scanned.checkpoints.values(), self.scanned.gone):
            offsets.pop((topic, key[1]), None)

    async def remove(self, path: str) -> None:
        await self.files.submit(lambda: self.directory.remove(path))

    async def remove_buried(self) -> None:
        """Those of an earlier process: what this one buries has readers who are given their time."""

        def work() -> None:
            for path in self.scanned.buried:
                self.directory.remove(path)

        await self.files.submit(work)

    def close(self) -> None:
        """Lets the next process in."""
        self.sync.close()
        self.files.close()
        self.clean_logs.close()
        self.logs.close()
        self.directory.close()


def _topic_of(path: str) -> str:
    """A partition's directory is called `<topic>-<index>`."""
    return path.rpartition("/")[2].rpartition("-")[0]


class Disks:
    """The directories that work. One that was retired is not offered for new partitions."""

    def __init__(self, disks: Sequence[Disk], configured: int = 0) -> None:
        """`configured`: how many there were to be."""
        self.all = tuple(disks)
        self._configured = configured

    @property
    def usable(self) -> list[Disk]:
        return [disk for disk in self.all if not disk.sync.failed]

    @property
    def directory_ids(self) -> tuple[str, ...]:
        return tuple(disk.directory_id for disk in self.usable)

    @property
    def lacks_some(self) -> bool:
        """One could not be opened, or has failed."""
        return len(self.usable) < self._configured

    def opened_ids(self) -> tuple[str, ...]:
        """Also of those that failed since."""
        return tuple(disk.directory_id for disk in self.all)

    def holding(self, key: Key) -> Disk | None:
        return next((disk for disk in self.all if disk.holds(key)), None)

    def awaits(self, key: Key) -> bool:
        """Whether an earlier process was moving it here from another directory: if that is not here, its log is not."""
        return any(key in disk.scanned.to_come for disk in self.all)

    def found(self, key: Key) -> None:
        for disk in self.all:
            disk.scanned.to_come.discard(key)

    def that_lost(self, topic: str, index: int, assigned: str) -> Disk | None:
        """The one that held the partition, and holds nothing of it any more."""
        for disk in self.usable:
            if (topic, index) in disk.scanned.gone and assigned in ("", disk.directory_id):
                return disk
        return None

    def forget_gone(self, topic: str, index: int) -> None:
        """The topic was deleted."""
        for disk in self.all:
            disk.scanned.gone.pop((topic, index), None)

    def of(self, scheduler: SyncScheduler) -> Disk:
        return next(disk for disk in self.all if disk.sync is scheduler)

    def choose(self, key: Key, chooser: Callable[[dict[str, int]], str | None]) -> Disk | None:
        """Counts at once: partitions of a new topic are opened side by side, and must not all choose the same."""
        usable = self.usable
        chosen = chooser({disk.directory_id: len(disk.hosted) for disk in usable})
        for disk in usable:
            if disk.directory_id == chosen:
                disk.hosted.add(key)
                return disk
        return None
