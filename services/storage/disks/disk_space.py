"""The space of each log directory: its size and its free bytes, as metrics, and a warning before it is full.

The directory's own thread asks the file system. A disk that hangs keeps that thread, and neither the event loop nor a scrape.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Set
from functools import partial
from typing import Final, NamedTuple

from libs.commitlog.files.filesystem import FileSystem
from libs.telemetry.definitions import Family, FamilySource, GaugeDefinition, MetricSet, Rows
from libs.telemetry.limited_lines import LimitedLines
from libs.telemetry.log_limit import LogLimit
from libs.telemetry.logs import fields
from services.storage.disks.disks import Disk, Disks

log = logging.getLogger("disks")

EVERY_S: Final = 5.0
STALE_S: Final = 60.0
"""The age from which a reading is not shown: the disk does not answer."""
WARNING_S: Final = 3600.0
"""The time between two warnings of one directory that stays nearly full."""
ENOUGH: Final = 1.1
"""The free bytes with which a directory is no longer nearly full, in multiples of the threshold."""

LABELS: Final = ("log_directory",)


class _Reading(NamedTuple):
    size: int
    free: int
    at: float


class DirectoryGauges(MetricSet):
    """The log directories at a scrape, for which it is made. `readings`: of those whose disk answers. `full`: of those in use."""

    def __init__(
        self, readings: Mapping[str, _Reading], logs_bytes: Mapping[str, int], full: Mapping[str, bool], retired: Set[str]
    ) -> None:
        super().__init__()
        self._readings = readings.items()
        self._logs_bytes = logs_bytes
        self._full = full
        self._offline = {**full, **dict.fromkeys(retired, True)}

    @GaugeDefinition(
        name="penstock_storage_log_directory_free_bytes",
        help="Bytes that the volume of a log directory has free, by log directory. Absent while the disk does not answer.",
        labels=LABELS,
        healthy="above PENSTOCK_FREE_DISK_PERCENT_MIN of `penstock_storage_log_directory_size_bytes`",
        otherwise="Lower `retention.ms` or `retention.bytes`, delete topics, move replicas, or enlarge the volume.",
    )
    def free(self) -> Rows:
        return [((path,), reading.free) for path, reading in self._readings]

    @GaugeDefinition(
        name="penstock_storage_log_directory_used_bytes",
        help="Bytes of the volume of a log directory that are not free, whoever uses them, by log directory.",
        labels=LABELS,
        healthy="well below `penstock_storage_log_directory_size_bytes`",
        otherwise="As for `penstock_storage_log_directory_free_bytes`.",
    )
    def used(self) -> Rows:
        return [((path,), reading.size - reading.free) for path, reading in self._readings]

    @GaugeDefinition(
        name="penstock_storage_log_directory_size_bytes",
        help="Bytes of the volume of a log directory, by log directory.",
        labels=LABELS,
        healthy="constant",
    )
    def size(self) -> Rows:
        return [((path,), reading.size) for path, reading in self._readings]

    @GaugeDefinition(
        name="penstock_storage_log_directory_logs_bytes",
        help="Bytes of all logs in a log directory, by log directory.",
        labels=LABELS,
        healthy="most of `penstock_storage_log_directory_used_bytes`",
        otherwise="Far less: something else fills the volume.",
    )
    def logs(self) -> Rows:
        return [((path,), size) for path, size in self._logs_bytes.items()]

    @GaugeDefinition(
        name="penstock_storage_log_directory_full",
        help="1 if a log directory refuses appends, since its volume is full, by log directory. It serves reads.",
        labels=LABELS,
        healthy="0",
        otherwise="Make room, as for `penstock_storage_log_directory_free_bytes`. Appends then go on without a restart.",
    )
    def full(self) -> Rows:
        return [((path,), float(value)) for path, value in self._full.items()]

    @GaugeDefinition(
        name="kafka_log_logmanager_logdirectoryoffline",
        help="1 if a log directory takes no appends, by log directory: it is retired after an error, or full.",
        labels=LABELS,
        healthy="0",
        otherwise="As for `kafka_log_logmanager_offlinelogdirectorycount`.",
    )
    def offline(self) -> Rows:
        return [((path,), float(value)) for path, value in self._offline.items()]

    @GaugeDefinition(
        name="kafka_log_logmanager_offlinelogdirectorycount",
        help="Log directories that take no appends: retired after an error, or full. A full one serves reads, unlike Kafka's.",
        healthy="0",
        otherwise="Look for `log directory retired` or `log directory is full` in the log. "
        "[Troubleshooting](../use/troubleshooting.md) tells what to do.",
    )
    def offline_count(self) -> int:
        return sum(self._offline.values())


class DiskSpace(FamilySource):
    """The readings of all log directories. `retired` has the paths of those that were given up, or never opened."""

    def __init__(
        self,
        fs: FileSystem,
        free_percent_min: int,
        disks: Disks,
        retired: set[str],
        logs_bytes: Callable[[], Generator[None, None, dict[str, int]]],
    ) -> None:
        """`logs_bytes`: the bytes of the logs, by directory, which it returns after pauses."""
        self._fs = fs
        self._free_percent_min = free_percent_min
        self._disks = disks
        self._retired = retired
        self._logs_bytes = logs_bytes
        self._loop = asyncio.get_running_loop()
        self._readings: dict[str, _Reading] = {}
        self._low: dict[str, LogLimit] = {}
        """The limit of warnings, by directory that is nearly full."""
        self._unread_lines = LimitedLines(log, WARNING_S, self._loop)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Each disk has a task: one that hangs must not hold up another."""
        self._tasks = [self._loop.create_task(self._watch(disk), name=f"space of {disk.path}") for disk in self._disks.all]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self, disk: Disk) -> None:
        while not disk.sync.failed:
            await self.measure(disk)
            await asyncio.sleep(EVERY_S)
        self._readings.pop(disk.path, None)

    async def measure(self, disk: Disk) -> None:
        """Reads the space of one directory."""
        try:
            size, free = await disk.files.submit(partial(self._fs.space, disk.path))
        except OSError as error:
            self._readings.pop(disk.path, None)
            event = "space of a log directory is not known"
            self._unread_lines.write(disk.path, logging.WARNING, event, path=disk.path, reason=str(error))
            return
        self._readings[disk.path] = _Reading(size, free, self._loop.time())
        disk.sync.room.measured(free)
        self._warn(disk.path, size, free)

    def _warn(self, path: str, size: int, free: int) -> None:
        threshold = size * self._free_percent_min // 100
        details = {"path": path, "free_bytes": free, "size_bytes": size}
        if free < threshold:
            if self._low.setdefault(path, LogLimit(WARNING_S)).count(self._loop.time()):
                log.warning("log directory is nearly full", extra=fields(**details, warned_below_bytes=threshold))
        elif path in self._low and free >= threshold * ENOUGH:
            del self._low[path]
            log.info("log directory is no longer nearly full", extra=fields(**details))

    def families(self) -> Iterator[Family | None]:
        logs_bytes = yield from self._logs_bytes()
        not_before = self._loop.time() - STALE_S
        readings = {
            path: reading for path, reading in self._readings.items() if reading.at >= not_before and path not in self._retired
        }
        full = {disk.path: disk.sync.room.full for disk in self._disks.usable}
        yield from DirectoryGauges(readings, logs_bytes, full, self._retired).families()
