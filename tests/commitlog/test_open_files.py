"""Ten thousand partitions of many segments each, and a few descriptors: what is open is bounded, and nothing dirty is closed."""

import errno
import gc
import os
import re
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from libs.commitlog.files.filesystem import Buffer, OsFileSystem
from libs.commitlog.files.mappings import map_file
from libs.commitlog.files.open_files import OpenFiles, open_files_max
from libs.commitlog.files.page_cache import NonblockingLookup, NotInPageCache
from libs.commitlog.files.sync import run_round
from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import LogWriteError, SyncFailed
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.index import OFFSET_ENTRY, IndexEntries
from libs.commitlog.segments.segment import FileRegistry, SegmentFile
from libs.commitlog.segments.segment_removal import remove_retired
from tests.commitlog.harness import (
    SMALL,
    FaultyFileSystem,
    QuickFileSystem,
    all_bytes,
    append_some,
    content,
    offset_for_timestamp,
    open_log,
    read_batches,
    searched,
    sync,
)

BOUND = 16


def held(path: Path) -> tuple[int, int]:
    """(descriptors, mappings) of files below `path` that this process has."""
    descriptors = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            descriptors += os.readlink(f"/proc/self/fd/{name}").startswith(f"{path}/")
        except FileNotFoundError:
            pass
    mappings = re.findall(rf" {re.escape(str(path))}/", Path("/proc/self/maps").read_text(encoding="utf-8"))
    return descriptors, len(mappings)


def bounded(capacity: int = BOUND) -> FileRegistry:
    return FileRegistry(OpenFiles(capacity))


def filled(path: Path, registry: FileRegistry, segments: int) -> Log:
    """A log of so many segments, on disk."""
    log = open_log(path, registry=registry)
    while len(log.segments) < segments:
        append_some(log, 8)
        sync(log)
    return log


def test_a_log_of_two_hundred_segments_holds_few_files(tmp_path: Path) -> None:
    log = filled(tmp_path, bounded(), 200)
    checked = []

    def check() -> None:
        descriptors, mappings = held(tmp_path)
        checked.append(descriptors)
        assert descriptors <= BOUND
        assert mappings <= BOUND

    check()
    end = log.log_end_offset
    assert [batch.header.base_offset for batch in read_batches(log, 0)] == list(range(end))
    check()
    for offset in range(0, end, 37):
        piece = log.read(offset, 1, end, at_least_one_batch=True)
        assert piece is not None
        assert content(piece)
        result = offset_for_timestamp(log, 1000, end)
        assert result is not None
        assert result.offset == 0
        check()
    assert searched(log.search_max_timestamp()) is not None
    log.truncate_to(end // 2)
    check()
    for _ in range(10):
        append_some(log, 10)
        sync(log, resume_point=True)
    check()
    log.delete_before(end // 4, log.log_end_offset)
    log.advance_start()
    retired = log.retire_segments()
    assert retired is not None
    remove_retired(QuickFileSystem(), retired.rename(QuickFileSystem()))
    assert [batch.header.base_offset for batch in read_batches(log, end // 4)] == list(range(end // 4, log.log_end_offset))
    check()
    log.close(clean=True)
    check()
    assert max(checked) > 3
    again = open_log(tmp_path, registry=bounded(), clean=True, log_start_offset=end // 4)
    assert again.scanned_bytes == 0
    assert again.log_end_offset == log.log_end_offset
    check()


def test_a_log_that_was_stopped_cleanly_opens_without_opening_its_files(tmp_path: Path) -> None:
    log = filled(tmp_path, bounded(), 5)
    whole = all_bytes(log)
    log.close(clean=True)
    del log
    gc.collect()
    again = open_log(tmp_path, registry=bounded(), clean=True)
    assert held(tmp_path) == (0, 0)
    append_some(again, 30)
    sync(again)
    assert all_bytes(again).startswith(whole)
    assert again.log_end_offset == 30 + len(list(read_batches(again, 0))) - 30


def test_an_unsynced_file_stays_open_however_many_others_need_the_room(tmp_path: Path) -> None:
    registry = bounded()
    dirty = open_log(tmp_path / "dirty", registry=registry)
    append_some(dirty, 5)  # one segment, with index entries
    assert len(dirty.segments) == 1
    description = dirty.active.file.handle.fd
    others = [open_log(tmp_path / f"t-{number}", registry=registry) for number in range(30)]
    for other in others:
        append_some(other, 1)
        sync(other)
        assert all_bytes(other)
    assert dirty.active.file.handle.fd == description
    targets = dirty.sync_targets(indexes=True)
    assert targets is not None
    assert description in [file.fd for file in targets.files]
    run_round([targets], dirty.fs, dirty.directory)
    dirty.mark_synced(targets)
    assert not dirty.active.is_unsynced
    del targets
    for other in others:
        assert all_bytes(other)
    assert held(tmp_path / "dirty") == (0, 0)
    assert len(read_batches(dirty, 0)) == 5


def test_a_write_during_a_round_keeps_the_file_open(tmp_path: Path) -> None:
    log = open_log(tmp_path, registry=bounded())
    append_some(log, 1)
    targets = log.sync_targets(indexes=True)
    assert targets is not None
    append_some(log, 1)
    run_round([targets], log.fs, log.directory)
    log.mark_synced(targets)
    assert log.active.is_unsynced


def test_writers_that_leave_no_room_are_refused_until_a_round_makes_some(tmp_path: Path) -> None:
    registry = bounded()
    logs = [open_log(tmp_path / f"t-{number}", registry=registry) for number in range(40)]
    assert held(tmp_path)[0] <= BOUND
    refusals: dict[Log, LogWriteError] = {}
    for log in logs:
        try:
            append_some(log, 1)
        except LogWriteError as error:
            refusals[log] = error
    assert refusals
    assert not any(error.fatal for error in refusals.values())
    assert registry.open_files.crowded
    assert held(tmp_path)[0] <= BOUND
    for log in logs:
        sync(log)
    assert not registry.open_files.crowded
    for log in refusals:
        append_some(log, 1)
        sync(log)
    assert [log.log_end_offset for log in logs] == [1] * 40


def test_a_log_of_more_unsynced_segments_than_may_be_open_is_recovered(tmp_path: Path) -> None:
    log = open_log(tmp_path, registry=bounded(3000))
    while len(log.segments) < 200:
        append_some(log, 8)
    whole = all_bytes(log)
    assert log.durable_offset == 0
    del log
    gc.collect()
    fs = FaultyFileSystem()
    again = open_log(tmp_path, fs, registry=bounded())
    assert held(tmp_path)[0] <= BOUND
    assert fs.calls.count("fdatasync") >= 3 * (200 - BOUND)
    assert (len(again.segments), again.recovery_point, again.durable_offset) == (200, 0, 0)
    assert all_bytes(again) == whole
    sync(again, resume_point=True)
    assert again.durable_offset == again.log_end_offset
    assert open_log(tmp_path, registry=bounded()).scanned_bytes == 0


def test_a_failed_sync_of_what_a_log_that_opens_cannot_hold_is_final(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    while len(log.segments) < 20:
        append_some(log, 8)
    fs = FaultyFileSystem()
    fs.fail("fdatasync", after=10, error=errno.EIO)
    with pytest.raises(SyncFailed):
        open_log(tmp_path, fs, registry=bounded())


def test_a_writer_that_outruns_the_rounds_fills_segments_beyond_their_size_and_is_not_refused(tmp_path: Path) -> None:
    config = replace(SMALL, segment_index_bytes=100_000)
    log = open_log(tmp_path, config=config, registry=bounded(32))
    for _ in range(50):
        append_some(log, 1, together=20)  # each rolls several times
        assert held(tmp_path)[0] <= 32
    assert len(log.segments) < 20
    assert log.active.size > 10 * SMALL.segment_bytes
    before = len(log.segments)
    sync(log)
    append_some(log, 8)
    assert len(log.segments) > before
    assert log.active.size <= SMALL.segment_bytes
    assert [batch.header.base_offset for batch in read_batches(log, 0)] == list(range(1008))
    log.close(clean=True)
    assert open_log(tmp_path, config=config, registry=bounded(), clean=True).scanned_bytes == 0


def test_a_reader_keeps_what_it_reads_from_when_others_need_the_room(tmp_path: Path) -> None:
    log = filled(tmp_path, bounded(), 40)
    first = log.segments[0]
    read = first.batch_reader(next(first.walk(0, first.size)))
    expected = read()
    for segment in log.segments:
        segment.find(segment.next_offset - 1)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(read).result() == expected


def test_threads_that_push_each_other_out_read_what_they_ask_for(tmp_path: Path) -> None:
    registry = bounded()
    for number in range(8):
        log = filled(tmp_path / f"t-{number}", registry, 10)
        log.close(clean=True)

    def work(number: int) -> int:
        log = open_log(tmp_path / f"t-{number}", registry=registry, clean=True)
        for _ in range(5):
            assert [batch.header.base_offset for batch in read_batches(log, 0)] == list(range(log.log_end_offset))
        return log.log_end_offset

    with ThreadPoolExecutor(4) as pool:
        assert min(pool.map(work, range(8))) > 9


def push_out(registry: FileRegistry, path: Path) -> None:
    """Holds other files until none is cached, and lets go of them."""
    other = path / "other"
    other.touch()
    others = (registry.open_files.open(OsFileSystem(), str(other), object()) for _ in count())
    with pytest.raises(OSError, match="too many files are held open"):
        list(others)


def test_a_number_stands_for_the_inode_and_not_for_the_name(tmp_path: Path) -> None:
    """A cleaned segment takes the name of its source."""
    registry = bounded()
    log = filled(tmp_path, registry, 3)
    file, other = log.segments[0].file, log.segments[1].file
    push_out(registry, tmp_path)
    os.rename(file.path, file.path + ".deleted")
    os.rename(other.path, file.path)
    with pytest.raises(FileNotFoundError):
        file.open_readonly()


def test_a_file_that_left_the_log_is_not_opened_again(tmp_path: Path) -> None:
    registry = bounded()
    log = filled(tmp_path, registry, 3)
    file = log.segments[0].file
    push_out(registry, tmp_path)
    registry.remove(file)
    assert registry.get(file.file_id) is None
    with pytest.raises(FileNotFoundError):
        file.open_readonly()


def test_a_truncation_that_begins_a_segment_anew_does_not_lend_it_the_old_number(tmp_path: Path) -> None:
    registry = bounded()
    log = open_log(tmp_path, registry=registry)
    append_some(log, 3)
    sync(log, resume_point=True)
    file: SegmentFile = log.active.file
    log.truncate_to(0)
    push_out(registry, tmp_path)
    assert log.active.file.path == file.path
    with pytest.raises(FileNotFoundError):
        file.open_readonly()


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_an_index_that_somebody_took_while_it_was_closed_is_made_again(tmp_path: Path, damage: str) -> None:
    log = filled(tmp_path, bounded(), 10)
    path = tmp_path / f"{log.segments[2].base_offset:020d}.index"
    before = path.read_bytes()
    for segment in log.segments:
        segment.find(segment.next_offset - 1)
    for segment in log.segments[5:]:
        segment.find(segment.next_offset - 1)
    if damage == "gone":
        path.unlink()
    else:
        os.truncate(path, 8)
    assert [batch.header.base_offset for batch in read_batches(log, 0)] == list(range(log.log_end_offset))
    log.segments[2].find(log.segments[2].next_offset - 1)
    assert path.read_bytes() == before


@pytest.mark.parametrize("batches", [0, 1])
def test_an_empty_index_that_somebody_took_after_a_clean_stop_is_begun_again(tmp_path: Path, batches: int) -> None:
    log = open_log(tmp_path, registry=bounded())
    append_some(log, batches)
    sync(log)
    log.close(clean=True)
    (tmp_path / f"{0:020d}.index").unlink()
    (tmp_path / f"{0:020d}.timeindex").unlink()
    again = open_log(tmp_path, registry=bounded(), clean=True)
    append_some(again, 8)
    sync(again)
    assert offset_for_timestamp(again, 1000, again.log_end_offset) is not None
    assert len(read_batches(again, 0)) == 8 + batches
    again.roll()
    assert (tmp_path / f"{0:020d}.index").stat().st_size > 0


def test_an_idle_partition_reserves_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=LogConfig())
    append_some(log, 3)
    sync(log)
    blocks = sum((tmp_path / name).stat().st_blocks for name in (f"{0:020d}.index", f"{0:020d}.timeindex"))
    assert blocks == 0


def test_a_full_disk_refuses_the_first_entry_before_it_is_written(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs, LogConfig(index_interval_bytes=200))
    append_some(log, 1)
    fs.fail("reserve", after=0)
    with pytest.raises(LogWriteError) as refused:
        append_some(log, 1, size=400)
    assert not refused.value.fatal
    with pytest.raises(OSError) as full:
        log.roll()
    assert full.value.errno == errno.ENOSPC
    assert len(log.segments) == 1
    fs.heal()
    append_some(log, 3, size=400)
    log.roll()
    assert len(read_batches(log, 0)) == 4


def test_a_segment_that_an_undone_append_had_sealed_is_synced_with_all_that_follows(tmp_path: Path) -> None:
    """A round that began while the segment was growing again must not count as its last one."""
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs)
    append_some(log, 5)
    sync(log)
    fs.fail("create", after=3)
    with pytest.raises(LogWriteError):
        append_some(log, 1, together=60)
    fs.heal()
    append_some(log, 1)
    running = log.sync_targets()
    assert running is not None
    append_some(log, 1)
    tail = log.active.file.handle
    log.roll()
    log.mark_synced(running)
    later = log.sync_targets()
    assert later is not None
    assert tail in later.files


def test_the_bound_of_segment_files_leaves_room_for_sockets() -> None:
    assert open_files_max(4096) == 3072
    assert open_files_max(1024) == 768
    assert open_files_max(1 << 20) == 30_000
    assert open_files_max(100) == 16


class NothingCached(QuickFileSystem):
    def open_cached(self, path: str) -> int | None:
        return None


@pytest.mark.parametrize("kind", ["log", "index"])
def test_a_file_takes_no_descriptor_that_a_thread_opened_for_an_earlier_file_of_its_name(tmp_path: Path, kind: str) -> None:
    """A cleaned segment takes a name while a thread opens the file that had it. Readers would get bytes of the wrong file."""
    fs, registry, path = NothingCached(), FileRegistry(), tmp_path / "00000000000000000000.log"

    def opened_first() -> SegmentFile | IndexEntries:
        if kind == "log":
            return SegmentFile(fs, str(path), 0, registry)
        return IndexEntries(fs, str(path), OFFSET_ENTRY, registry.open_files, count=1, capacity=1)

    path.write_bytes(b"the former")
    lookup = NonblockingLookup()
    with pytest.raises(NotInPageCache) as former, lookup:
        opened_first().open_readonly()
    lookup.take(former.value.read, former.value.read())
    path.rename(tmp_path / "deleted")
    path.write_bytes(b"the latter")
    latter = opened_first()
    with pytest.raises(NotInPageCache) as miss, lookup:
        latter.open_readonly()
    lookup.take(miss.value.read, miss.value.read())
    with lookup:
        descriptor = latter.open_readonly()
    try:
        assert os.pread(descriptor, 100, 0) == b"the latter"
    finally:
        os.close(descriptor)


def test_a_view_keeps_its_mapping(tmp_path: Path) -> None:
    """What touches a mapping that has ended ends the process."""
    path = tmp_path / "mapped"
    path.write_bytes(b"abcdef")
    with path.open("rb") as file:
        view = map_file(file.fileno(), 6).view[2:4]
    gc.collect()
    assert held(tmp_path) == (0, 1)
    assert bytes(view) == b"cd"
    del view
    assert held(tmp_path) == (0, 0)


class Watched(struct.Struct):
    """Calls `before_touch` before it touches an entry, since a touch of an ended mapping would end the process."""

    before_touch: Callable[[], None] = staticmethod(lambda: None)

    def unpack_from(self, buffer: Buffer, offset: int = 0) -> tuple[int, int]:  # type: ignore[override]
        self.before_touch()
        first, second = super().unpack_from(buffer, offset)
        return first, second


class Crowding(QuickFileSystem):
    """Another thread needs the room of each file that a lookup asks the page cache for."""

    def __init__(self, open_files: OpenFiles, other: Path) -> None:
        super().__init__()
        self.open_files, self.other = open_files, other

    def open_cached(self, path: str) -> int | None:
        return self.open_append(path, create=False)

    def is_cached(self, fd: int, position: int, length: int) -> bool:
        with suppress(OSError):  # the lookup itself holds the file
            self.open_files.open(self, str(self.other), "other", create=True)
        return True


@pytest.mark.parametrize("lookup", ["entry", "floor"])
def test_a_lookup_reads_an_index_that_closes_meanwhile(tmp_path: Path, lookup: str) -> None:
    """Writers hold nearly all files, and a thread opens one while the kernel tells what it has of the index."""
    (tmp_path / "indexes").mkdir()
    path, entry = tmp_path / "indexes" / "index", Watched(">ii")
    path.write_bytes(b"".join(entry.pack(number, 10 * number) for number in range(2000)))
    open_files = OpenFiles(1)
    index = IndexEntries(Crowding(open_files, tmp_path / "other"), str(path), entry, open_files, count=2000, capacity=2000)
    index.know_last(1999, 19990)
    touched = []

    def check() -> None:
        touched.append(len(open_files))
        assert held(tmp_path / "indexes")[1] == 1

    entry.before_touch = check
    with NonblockingLookup():
        found = index.entry(700) if lookup == "entry" else index.entry(index.floor(700))
    assert found == (700, 7000)
    assert touched
    del index
    assert held(tmp_path / "indexes") == (0, 0)
