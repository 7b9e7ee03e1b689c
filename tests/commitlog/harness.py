"""A log in a temporary directory, and batches to put into it."""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from libs.clock import Clock, Monotonic, WallMs
from libs.commitlog.files.filesystem import Buffer, FileSystem, OsFileSystem
from libs.commitlog.files.sync import run_round
from libs.commitlog.files.writeback import UNKNOWN_DIRTY_BYTES
from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.log_checkpoints import LogCheckpoints
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.reading import Slice
from libs.commitlog.segments.segment import BatchMeta, FileRegistry
from libs.commitlog.segments.timestamp_search import BatchOpening, SearchResult, SearchStep, TimestampAndOffset, TimestampSearch
from libs.wire.record_batches.batches import BatchHeader, BatchView, iter_batches
from libs.wire.record_batches.records import Record, build_batch
from libs.wire.record_batches.timestamp_walk import walk_batch

SMALL = LogConfig(segment_bytes=1000, segment_index_bytes=240, index_interval_bytes=150)


class QuickFileSystem(OsFileSystem):
    """A file system that does not wait for the disk: these tests crash no machine."""

    def fdatasync(self, fd: int) -> None:
        pass

    def fsync_directory(self, path: str) -> None:
        pass

    def sync_all(self, path: str) -> None:
        pass

    def dirty_bytes(self) -> int:
        return UNKNOWN_DIRTY_BYTES  # independent of other programs on this machine: the choice of sync calls stays the same


class FaultyFileSystem(QuickFileSystem):
    """A file system that fails calls on request. `fail(operation, after, error)`: the call after so many more of that operation
    fails, and all later ones unless `once`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.short_writes: int | None = None
        self._faults: dict[str, tuple[int, int, bool]] = {}

    def fail(self, operation: str, *, after: int, error: int = errno.ENOSPC, once: bool = False) -> None:
        self._faults[operation] = (after, error, once)

    def heal(self) -> None:
        self._faults.clear()

    def _enter(self, operation: str) -> None:
        self.calls.append(operation)
        for name in (operation, "any"):
            if name in self._faults:
                left, error, once = self._faults[name]
                if left == 0:
                    if once:
                        del self._faults[name]
                    raise OSError(error, os.strerror(error))
                self._faults[name] = (left - 1, error, once)

    def open_append(self, path: str, *, create: bool) -> int:
        self._enter("create" if create else "open")
        return super().open_append(path, create=create)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        if self.short_writes is not None:
            buffers = [memoryview(buffers[0])[: self.short_writes]]
        self._enter("pwritev")
        return super().pwritev(fd, buffers, position)

    def truncate(self, fd: int, length: int) -> None:
        self._enter("truncate")
        super().truncate(fd, length)

    def reserve(self, fd: int, position: int, length: int) -> None:
        self._enter("reserve")
        super().reserve(fd, position, length)

    def fdatasync(self, fd: int) -> None:
        self._enter("fdatasync")
        super().fdatasync(fd)

    def fsync_directory(self, path: str) -> None:
        self._enter("fsync_directory")
        super().fsync_directory(path)

    def sync_all(self, path: str) -> None:
        self._enter("sync_all")
        super().sync_all(path)

    def rename(self, source: str, target: str) -> None:
        self._enter("rename")
        super().rename(source, target)


class SetClock:
    """A clock that stands still until a test sets it."""

    def __init__(self, now_ms: int = 1000) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> WallMs:
        return WallMs(self.now_ms)

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000

    def monotonic(self) -> Monotonic:
        return Monotonic(self.now_ms / 1000)


def open_log(
    path: Path,
    fs: FileSystem | None = None,
    config: LogConfig = SMALL,
    *,
    registry: FileRegistry | None = None,
    clock: Clock | None = None,
    read_bytes_max: int | None = None,
    on_read: Callable[[int], None] | None = None,
    **checkpoints: Any,
) -> Log:
    """Opens a log. `checkpoints`: the fields of LogCheckpoints."""
    return Log.open(
        str(path),
        "t",
        0,
        config,
        fs or QuickFileSystem(),
        registry=registry or FileRegistry(),
        clock=clock or SetClock(),
        checkpoints=LogCheckpoints(**checkpoints),
        read_bytes_max=read_bytes_max,
        on_read=on_read,
    )


def batch_at(
    offset: int, *, count: int = 1, size: int = 20, timestamp: int = 1000, epoch: int = 0, codec: int = 0, **fields: Any
) -> bytearray:
    """A batch whose records are distinguished by their offsets."""
    records = [Record(b"%d" % (offset + i), b"v" * size, timestamp + i) for i in range(count)]
    return build_batch(records, base_offset=offset, leader_epoch=epoch, codec=codec, **fields)


def meta(batch: Buffer) -> BatchMeta:
    header = BatchHeader.at(batch)
    return BatchMeta(
        header.base_offset, header.last_offset, header.size, header.max_timestamp, header.last_offset, header.leader_epoch
    )


def append(log: Log, *batches: Buffer) -> None:
    """Appends as the storage service does: producers first, then the log."""
    for batch in batches:
        header = BatchHeader.at(batch)
        log.producers.record(header, header.base_offset)
    log.append(batches, [meta(batch) for batch in batches])


def append_some(log: Log, batches: int, *, together: int = 1, **fields: int) -> None:
    for _ in range(batches):
        group: list[bytearray] = []
        offset = log.log_end_offset
        for _ in range(together):
            group.append(batch_at(offset, **fields))
            offset = BatchHeader.at(group[-1]).last_offset + 1
        append(log, *group)


def sync(log: Log, *, resume_point: bool = False) -> None:
    targets = log.sync_targets(resume_point=resume_point)
    if targets is not None:
        run_round([targets], log.fs, log.directory)
        log.mark_synced(targets)


def content(piece: Slice) -> bytes:
    fd = piece.file.open_readonly()
    try:
        return os.pread(fd, piece.length, piece.position)
    finally:
        os.close(fd)


def read_batches(log: Log, offset: int, end_offset: int | None = None, max_bytes: int = 1 << 20) -> list[BatchView]:
    """All batches from the one with `offset` on, over all segments."""
    end = log.log_end_offset if end_offset is None else end_offset
    result: list[BatchView] = []
    while True:
        piece = log.read(offset, max_bytes, end, at_least_one_batch=True)
        if piece is None:
            return result
        batches = list(iter_batches(content(piece)))
        assert batches
        assert batches[0].header.base_offset == piece.first_offset
        result += batches
        offset = result[-1].header.last_offset + 1


def all_bytes(log: Log) -> bytes:
    return b"".join(bytes(batch.view) for batch in read_batches(log, log.log_start_offset))


def files(path: Path, suffix: str) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if entry.name.endswith(suffix))


def offset_for_timestamp(log: Log, timestamp: int, end_offset: int) -> TimestampAndOffset | None:
    return searched(log.search_timestamp(timestamp, end_offset))


def searched(search: TimestampSearch) -> TimestampAndOffset | None:
    """The result of a search, with each step done at once."""
    try:
        step = next(search)
        while True:
            step = search.send(result_of(step))
    except StopIteration as done:
        result: TimestampAndOffset | None = done.value
    return result


def result_of(step: SearchStep) -> SearchResult:
    return walk_batch(step.walk(step.read())) if isinstance(step, BatchOpening) else step()


def flipped(content: bytes, bit: int) -> bytes:
    """The content with one wrong bit."""
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)
