"""The log directories of this node: locked, identified, scanned; each with its sync scheduler and its worker threads."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial

from libs.commitlog.checkpoints.offset_checkpoint import FORMER_VERSIONS, Entries, Entry, Name
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import LogDamaged
from libs.commitlog.model.log_checkpoints import LogCheckpoints
from libs.commitlog.partition_log.directory import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    LogDirectory,
)
from libs.commitlog.partition_log.recovery_job import OpenLogRequest
from libs.lean_dataclass import dataclass
from libs.telemetry.logs import fields
from services.storage.partition.partition import Key, Partition
from services.storage.partition.sync_scheduler import SyncScheduler
from services.storage.threads.offload import Offload

log = logging.getLogger("disks")


@dataclass(slots=True)
class Scanned:
    """The content of a log directory at its opening."""

    directory: LogDirectory
    paths: dict[Key, str]
    checkpoints: Mapping[str, dict[Key, int]]
    """The offsets by file name, for partitions that are here."""
    lost: dict[Name, Entry]
    """Partitions without a directory here, though they had one, and how far they were durable."""
    is_start_known: bool
    """Whether a log that the checkpoint does not name cannot have lost its start to retention."""
    deleted: list[str]
    """Directories of deleted partitions that an earlier process did not come to remove."""
    incoming: set[Key]
    """Partitions that an earlier process was moving here. Their logs are still at their source."""


def scan(path: str, fs: FileSystem, *, new_id: bytes, node_id: int, cluster_id: str) -> Scanned:
    """Blocks. Raises DirectoryLocked, DirectoryRetired, DirectoryOwnerMismatch, DirectoryDamaged, OSError."""
    directory = LogDirectory.open(path, fs, new_id=new_id, node_id=node_id, cluster_id=cluster_id)
    partitions = directory.list_partitions()
    here = {(entry.topic, entry.partition): entry.topic_id for entry in partitions}
    is_doubtful = directory.find_doubtful_entries()
    starts = directory.find_checkpoint(LOG_START_OFFSETS)
    high_watermarks = directory.read_checkpoint(HIGH_WATERMARKS)
    # A log start or a cleaned offset went before its log's name was free.
    checkpoints = {
        RECOVERY_POINTS: _of_logs_here(directory.read_checkpoint(RECOVERY_POINTS), here, is_doubtful),
        HIGH_WATERMARKS: _of_logs_here(high_watermarks, here, is_doubtful),
        LOG_START_OFFSETS: _of_logs_here(starts or {}, here, lambda _, entry: False),
        # Former versions left entries behind when they deleted a partition.
        CLEANED_OFFSETS: _of_logs_here(
            directory.read_checkpoint(CLEANED_OFFSETS), here, lambda _, entry: entry.topic_id == FORMER_VERSIONS
        ),
    }
    lost = {
        name: entry
        for name, entry in high_watermarks.items()
        if entry.offset > 0 and name not in here and not is_doubtful(name, entry)
    }
    is_start_known = starts is not None
    paths = {(entry.topic_id, entry.partition): entry.path for entry in partitions}
    deleted, incoming = directory.scheduled_deletions(), directory.partitions_to_come()
    return Scanned(directory, paths, checkpoints, lost, is_start_known, deleted, incoming)


def _of_logs_here(entries: Entries, here: Mapping[Name, bytes], is_doubtful: Callable[[Name, Entry], bool]) -> dict[Key, int]:
    """The offsets of logs that are here. An entry may be of a former topic of that name."""
    return {
        (here[name], name[1]): entry.offset
        for name, entry in entries.items()
        if name in here and entry.is_of(here[name]) and not is_doubtful(name, entry)
    }


@dataclass(slots=True, eq=False)
class Disk:
    """One log directory in use. `files` runs one job at a time, in order; `logs` and `clean_logs` open logs side by side; `reads`
    reads what lookups miss in the page cache."""

    scanned: Scanned
    sync: SyncScheduler[Partition]
    files: Offload
    logs: Offload
    clean_logs: Offload
    reads: Offload
    partitions: set[Key] = field(default_factory=set)
    arriving: dict[str, dict[Name, Entry]] = field(default_factory=dict)
    """By checkpoint, the entries of logs that are about to take their names here."""
    undropped: set[Key] = field(default_factory=set)
    """Logs whose cleaned offset on the disk may lie beyond the one in memory, since an attempt to drop it failed."""
    unstamped: bool = True
    """Whether records may have been committed since the last volume stamp."""

    @property
    def directory(self) -> LogDirectory:
        return self.scanned.directory

    @property
    def directory_id(self) -> str:
        return self.directory.directory_id.hex()

    @property
    def path(self) -> str:
        return self.directory.path

    def high_watermark(self, key: Key) -> int:
        return self.scanned.checkpoints[HIGH_WATERMARKS].get(key, 0)

    @property
    def cleaned_offsets(self) -> dict[Key, int]:
        """The offset up to which each log was compacted. The cleaner keeps it."""
        return self.scanned.checkpoints[CLEANED_OFFSETS]

    async def limit_cleaned_offset(self, key: Key, topic: str, end_offset: int) -> None:
        """Lowers the cleaned offset of a log that ends earlier, durably: what is written from there on was never compacted. To be
        called before such a record is written. Raises OSError: the next call then drops what is on the disk."""
        if self.cleaned_offsets.get(key, 0) > end_offset:
            self.cleaned_offsets[key] = end_offset
            self.undropped.add(key)
        if key in self.undropped:
            await self.files.submit(partial(self.directory.drop_cleaned_offset, topic, key[1]))
            self.undropped.discard(key)

    def holds(self, key: Key) -> bool:
        return key in self.scanned.paths

    def unopened(self) -> list[tuple[Key, str]]:
        """(key, topic) of each partition on the disk whose log nobody has opened."""
        return [(key, self.topic_of(key)) for key in self.scanned.paths if key not in self.partitions]

    def topic_of(self, key: Key) -> str:
        """The topic of a partition that is here. Its directory is called `<topic>-<index>`."""
        return self.scanned.paths[key].rpartition("/")[2].rpartition("-")[0]

    async def open_request(self, key: Key, topic: str, config: LogConfig, fs: FileSystem, moves: int) -> OpenLogRequest:
        """The request to open a log. It makes the directory if there is none, newer than any with fewer `moves`.

        Raises OSError, LogDamaged, DirectoryDamaged.
        """
        index = key[1]
        path = self.scanned.paths.get(key)
        if path is None:
            await self._free_name(topic, index)
            if self.has_lost(key, topic):
                await self.logs.submit(partial(self._refuse_if_lost, topic, index, fs))
            path = await self.logs.submit(lambda: self.directory.adopt_partition(topic, index, key[0], moves))
            self.scanned.paths[key] = path
        checkpoints = self.scanned.checkpoints
        lost = self.scanned.lost[topic, index].offset if self.has_lost(key, topic) else None
        log_checkpoints = LogCheckpoints(
            clean=self.directory.was_clean,
            recovery_point=checkpoints[RECOVERY_POINTS].get(key, 0),
            log_start_offset=checkpoints[LOG_START_OFFSETS].get(key, 0),
            committed_offset=checkpoints[HIGH_WATERMARKS].get(key, 0) if lost is None else lost,
            is_start_known=self.scanned.is_start_known or key in checkpoints[LOG_START_OFFSETS],
        )
        return OpenLogRequest(path, topic, index, config, fs, log_checkpoints)

    def has_lost(self, key: Key, topic: str) -> bool:
        """Whether the partition had a directory here, and has none any more."""
        entry = self.scanned.lost.get((topic, key[1]))
        return entry is not None and entry.is_of(key[0])

    def threads_for(self, key: Key) -> Offload:
        """Threads for the opening of a log. To be called before `open_request`, which makes a new log.

        Much of a log that was not closed cleanly may have to be read, so it is opened by `logs`.
        """
        return self.clean_logs if self.directory.was_clean and self.holds(key) else self.logs

    def _refuse_if_lost(self, topic: str, index: int, fs: FileSystem) -> None:
        """Raises LogDamaged if the whole directory is lost. If only `partition.metadata` is, the log itself decides."""
        path = self.directory.partition_path(topic, index)
        if not fs.exists(path):
            last = self.scanned.lost[topic, index].offset - 1
            raise LogDamaged(f"{path}: the directory is gone, offsets up to {last} were synced")

    def opened(self, key: Key, topic: str) -> None:
        self.partitions.add(key)
        self.scanned.lost.pop((topic, key[1]), None)

    async def make_room_for(self, topic: str, index: int, topic_id: bytes) -> None:
        """Sets aside what has the partition's name here without being its log; it is kept like any stray. Raises OSError."""
        await self._free_name(topic, index)

        def work() -> None:
            try:
                path = self.directory.set_aside(topic, index, topic_id)
            except FileNotFoundError:
                return
            log.warning("directory set aside, remove it if nobody misses it", extra=fields(path=path))

        await self.files.submit(work)

    def arrived(self, key: Key, topic: str) -> None:
        """Takes a moved log, which is open and has its name."""
        self.partitions.add(key)
        self.scanned.paths[key] = self.directory.partition_path(topic, key[1])
        self.scanned.lost.pop((topic, key[1]), None)
        self.forget_arriving(topic, key[1])

    def forget_arriving(self, topic: str, index: int) -> None:
        for entries in self.arriving.values():
            entries.pop((topic, index), None)

    async def _free_name(self, topic: str, index: int) -> None:
        """Sets aside a stray of the same name with another topic id.

        Its topic was deleted while this node was down, or the metadata that knew it was lost. It is kept like any stray.
        """
        path = self.directory.partition_path(topic, index)
        stray = next((key for key, path_there in self.scanned.paths.items() if path_there == path), None)
        if stray is not None:
            aside = await self.set_aside(stray, topic)
            log.warning("stray partition of the same name set aside, remove it if nobody misses it", extra=fields(path=aside))

    async def delete_files(self, key: Key, topic: str) -> str:
        """Renames the partition's directory, which frees its name. Returns the new path, for `remove`."""
        self._forget(key, topic)
        path = await self.files.submit(lambda: self.directory.schedule_deletion(topic, key[1], key[0]))
        self.undropped.discard(key)
        return path

    async def set_aside(self, key: Key, topic: str) -> str:
        """Renames the partition's directory, which frees its name. Its files stay below the returned path."""
        self._forget(key, topic)
        path = await self.files.submit(lambda: self.directory.set_aside(topic, key[1], key[0]))
        self.undropped.discard(key)
        return path

    def _forget(self, key: Key, topic: str) -> None:
        self.partitions.discard(key)
        self.scanned.paths.pop(key, None)
        self.scanned.lost.pop((topic, key[1]), None)
        if key in self.cleaned_offsets:
            self.undropped.add(key)
        for offsets in self.scanned.checkpoints.values():
            offsets.pop(key, None)

    async def remove_files(self, path: str) -> None:
        """Removes a deleted partition's files. Its empty directory stays, for `remove`."""
        await self.files.submit(lambda: self.directory.remove_files(path))

    async def remove(self, path: str) -> None:
        await self.files.submit(lambda: self.directory.remove(path))

    async def remove_deleted_files(self) -> None:
        """As `remove_files`, for what earlier processes deleted. Deletions of this one leave time to readers."""
        await self.files.submit(lambda: self._for_each_deleted(self.directory.remove_files))

    async def remove_deleted(self) -> None:
        """Removes the directories that `remove_deleted_files` emptied."""
        await self.files.submit(lambda: self._for_each_deleted(self.directory.remove))

    def _for_each_deleted(self, work: Callable[[str], None]) -> None:
        for path in self.scanned.deleted:
            work(path)

    def close(self) -> None:
        """Ends its syncs and the threads of its logs. Who opened the directory ends `files`, and frees the directory."""
        self.sync.close()
        self.clean_logs.close()
        self.logs.close()
        self.reads.close()


class Disks:
    """The log directories that opened. A retired one gets no new partitions."""

    def __init__(self, disks: Sequence[Disk], configured: int = 0) -> None:
        """`configured`: the number of directories in the configuration."""
        self.all = tuple(disks)
        self._configured = configured

    @property
    def usable(self) -> list[Disk]:
        return [disk for disk in self.all if not disk.sync.failed]

    @property
    def directory_ids(self) -> tuple[str, ...]:
        return tuple(disk.directory_id for disk in self.usable)

    @property
    def full_paths(self) -> tuple[str, ...]:
        """The paths of those that refuse appends, since they are full."""
        return tuple(disk.path for disk in self.usable if disk.sync.room.full)

    @property
    def some_unusable(self) -> bool:
        """Whether a directory did not open, or has failed."""
        return len(self.usable) < self._configured

    def opened_ids(self) -> tuple[str, ...]:
        """The ids of all that opened, also of those that failed since."""
        return tuple(disk.directory_id for disk in self.all)

    def holding(self, key: Key) -> Disk | None:
        return next((disk for disk in self.all if disk.holds(key)), None)

    def expects(self, key: Key) -> bool:
        """Whether an earlier process was moving the partition here. If its source is not here, its log is not either."""
        return any(key in disk.scanned.incoming for disk in self.all)

    def no_longer_incoming(self, key: Key) -> None:
        for disk in self.all:
            disk.scanned.incoming.discard(key)

    def disk_that_lost(self, key: Key, topic: str, assigned: str) -> Disk | None:
        """The disk that held the partition, and has nothing of it any more."""
        for disk in self.usable:
            if disk.has_lost(key, topic) and assigned in ("", disk.directory_id):
                return disk
        return None

    def forget_lost(self, topic: str, index: int) -> None:
        """Forgets a lost partition whose topic was deleted."""
        for disk in self.all:
            disk.scanned.lost.pop((topic, index), None)

    def reads_at(self, path: str) -> Offload | None:
        """The threads that read for lookups on the disk that holds the path."""
        return next((disk.reads for disk in self.all if path.startswith(disk.path + "/")), None)

    def of(self, scheduler: SyncScheduler[Partition]) -> Disk:
        return next(disk for disk in self.all if disk.sync is scheduler)

    def choose(self, key: Key, chooser: Callable[[dict[str, int]], str | None]) -> Disk | None:
        """Chooses a disk, and counts at once: partitions of a new topic are opened side by side, and must not all choose the
        same."""
        usable = self.usable
        chosen = chooser({disk.directory_id: len(disk.partitions) for disk in usable})
        for disk in usable:
            if disk.directory_id == chosen:
                disk.partitions.add(key)
                return disk
        return None
