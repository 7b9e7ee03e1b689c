"""The cleaner's files on the disk, whatever happens to it; its speed and its memory."""

import dataclasses
import errno
import gc
import itertools
import os
import random
import tracemalloc
from pathlib import Path

import pytest

from libs.commitlog.cleaner.cleaning import clean, clean_with
from libs.commitlog.cleaner.offset_map import OffsetMap
from libs.commitlog.cleaner.pace import Progress
from libs.commitlog.model.errors import SyncFailed
from libs.commitlog.segments.index import OFFSET_ENTRY, TIME_ENTRY
from libs.wire.record_batches.records import Record
from tests.commitlog.compacted import NOW_MS, CompactedPartition, VirtualPace
from tests.commitlog.harness import FaultyFileSystem, QuickFileSystem
from tests.simulation.disk import SimulatedDisk
from tests.simulation.sometimes import Sometimes


@pytest.fixture
def partition(tmp_path: Path) -> CompactedPartition:
    return CompactedPartition(tmp_path)


def fill(partition: CompactedPartition, segments: int = 3, batches: int = 20) -> None:
    for segment in range(segments):
        for i in range(batches):
            time = NOW_MS - 100_000 + partition.next_offset - i % 3 * 5
            common, rare = Record(b"%d" % (i % 7), b"v" * 40, time), Record(b"%d-%d" % (segment, i), b"v" * 40, time + 1)
            partition.put(common, rare, codec=i % 5)
        partition.roll()


def test_a_cleaned_segment_is_named_like_its_source_with_a_suffix(partition: CompactedPartition) -> None:
    fill(partition)
    partition.put_values((b"t", b"1"), producer_id=7, transactional=True)
    partition.end_transaction(7, aborts=True)
    partition.roll()
    before = set(partition.content())
    result = clean(partition.job(), partition.reports.append)
    names = {f"{0:020d}.{kind}.cleaned" for kind in ("log", "index", "timeindex", "txnindex")}
    assert set(partition.content()) - before == names
    (output,) = result.segments
    assert output.sources == tuple(partition.bases[:-1])
    assert output.size == (partition.path / f"{0:020d}.log.cleaned").stat().st_size == result.bytes_written


def test_the_output_is_as_old_as_its_last_source(partition: CompactedPartition) -> None:
    fill(partition)
    for number, base in enumerate(partition.bases):
        os.utime(partition.log_of(base), (1_600_000_000 + number, 1_600_000_000 + number))
    result = clean_with(QuickFileSystem(), partition.job(), partition.reports.append, VirtualPace().pace)
    assert result.segments[0].modified_ms == 1_600_000_002_000
    times = {path.stat().st_mtime for path in partition.path.glob("*.cleaned")}
    assert times == {1_600_000_002.0}


def test_adjacent_segments_become_one_as_long_as_they_fit(partition: CompactedPartition) -> None:
    fill(partition, segments=6)
    sizes = [partition.log_of(base).stat().st_size for base in partition.bases]
    bases = list(partition.bases)
    result = partition.clean(segment_bytes=sizes[0] + sizes[1] + 1)
    assert [output.sources for output in result.segments] == [tuple(bases[0:2]), tuple(bases[2:4]), tuple(bases[4:6])]
    assert partition.bases == [bases[0], bases[2], bases[4], bases[6]]


def test_indexes_have_an_entry_for_the_first_batch_after_each_interval(partition: CompactedPartition) -> None:
    """As in every segment; the last time entry is of the greatest timestamp."""
    fill(partition)
    partition.clean()
    offsets, times = [], []
    position = since = 0
    greatest = of_greatest = indexed = -1
    for header in partition.headers():
        if header.max_timestamp > greatest:
            greatest, of_greatest = header.max_timestamp, header.last_offset
        if since > 200:
            offsets.append((header.last_offset, position))
            if greatest > indexed:
                times.append((greatest, of_greatest))
                indexed = greatest
            since = 0
        position += header.size
        since += header.size
    if greatest > indexed:
        times.append((greatest, of_greatest))
    assert len(offsets) > 10
    assert list(OFFSET_ENTRY.iter_unpack((partition.path / f"{0:020d}.index").read_bytes())) == offsets
    assert list(TIME_ENTRY.iter_unpack((partition.path / f"{0:020d}.timeindex").read_bytes())) == times


def test_leftovers_of_an_earlier_attempt_are_replaced(partition: CompactedPartition) -> None:
    fill(partition)
    for name in (f"{0:020d}.log.cleaned", f"{0:020d}.txnindex.cleaned", f"{40:020d}.index.cleaned"):
        (partition.path / name).write_bytes(b"left behind")
    clean_with(QuickFileSystem(), partition.job(), partition.reports.append, VirtualPace().pace)
    names = {path.name for path in partition.path.glob("*.cleaned")}
    assert names == {f"{0:020d}.{kind}.cleaned" for kind in ("log", "index", "timeindex")}
    assert b"left behind" not in (partition.path / f"{0:020d}.log.cleaned").read_bytes()


def test_a_segment_of_which_nothing_stays_is_an_empty_file(partition: CompactedPartition) -> None:
    partition.put_values((b"a", b"1"))
    partition.roll()
    partition.put_values((b"a", b"2"))
    partition.roll()
    result = partition.clean(segment_bytes=1)
    assert [output.size for output in result.segments] == [0, partition.log_of(1).stat().st_size]
    assert partition.offsets() == [1]


def test_nothing_to_clean_is_no_work(partition: CompactedPartition) -> None:
    result = partition.clean(end_offset=0)
    assert (result.segments, result.end_offset, result.bytes_read) == ((), 0, 0)


@pytest.mark.parametrize("operation", ["create", "pwritev", "fdatasync", "fsync_directory"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_refuses_anything_finds_nothing_left_behind(tmp_path: Path, operation: str, error: int) -> None:
    """The operation fails at each of its calls in turn."""
    fs = FaultyFileSystem()
    partition = CompactedPartition(tmp_path, fs)
    fill(partition)
    before = partition.content()
    job = partition.job(segment_bytes=4000)
    for after in itertools.count():
        fs.fail(operation, after=after, error=error)
        refused: OSError | None = None
        try:
            clean_with(fs, job, partition.reports.append, VirtualPace().pace)
        except OSError as refusal:
            refused = refusal
        else:
            break
        assert isinstance(refused, SyncFailed) == ("sync" in operation)
        assert partition.content() == before
        fs.heal()
    assert after >= (1 if operation == "fsync_directory" else 3)


def test_short_writes_are_continued(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    partition = CompactedPartition(tmp_path, fs)
    fill(partition)
    result = clean_with(fs, partition.job(), partition.reports.append, VirtualPace().pace)
    whole = {path.name: path.read_bytes() for path in tmp_path.glob("*.cleaned")}
    fs.short_writes = 7
    assert clean_with(fs, partition.job(), partition.reports.append, VirtualPace().pace).segments == result.segments
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.cleaned")} == whole


def test_batches_larger_than_a_piece_are_read_whole(partition: CompactedPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.commitlog.cleaner.source.CHUNK_BYTES", 300)
    for i in range(50):
        partition.put_values((b"%d" % (i % 9), b"v" * (i * 37 % 1200)))
    partition.roll()
    partition.clean()
    assert partition.offsets() == list(range(41, 50))


def test_large_outputs_are_written_in_large_pieces(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    partition = CompactedPartition(tmp_path, fs)
    for i in range(600):
        partition.put_values((b"%d" % i, random.Random(i).randbytes(10_000)))
    partition.roll()
    before = partition.log_of(0).read_bytes()
    fs.calls.clear()
    partition.clean(segment_bytes=1 << 30, map_bytes=1 << 24)
    assert partition.log_of(0).read_bytes() == before
    assert fs.calls.count("pwritev") < 12


def test_reading_and_writing_keep_to_the_limit(partition: CompactedPartition) -> None:
    for i in range(300):
        partition.put_values((b"%d" % i, b"v" * 10_000))
    partition.roll()
    pace = VirtualPace()
    result = partition.clean(pace=pace.pace, bytes_per_second=1_000_000)
    moved = result.bytes_read + result.bytes_written
    assert moved > 8_000_000
    assert moved / 1_000_000 - 1 <= result.seconds <= moved / 1_000_000 + 1
    assert result.waited_seconds == pytest.approx(result.seconds), "in virtual time, nothing else takes any"
    assert partition.clean(pace=VirtualPace().pace).waited_seconds == 0.0


def test_progress_is_reported_about_once_a_second(partition: CompactedPartition) -> None:
    for i in range(300):
        partition.put_values((b"%d" % i, b"v" * 30_000))
    partition.roll()
    pace = VirtualPace()
    result = partition.clean(pace=pace.pace, bytes_per_second=2_000_000)
    assert 5 <= len(partition.reports) <= result.seconds
    for report in partition.reports:
        assert isinstance(report, dict)
        assert 0 < report["bytes_read"] <= report["bytes_to_read"] == result.bytes_read
        assert 0 <= report["bytes_kept"] <= result.bytes_written


@pytest.mark.parametrize("key_bytes", [4, 16, 36, 41, 500])
def test_the_map_stays_within_the_memory_it_was_granted(tmp_path: Path, key_bytes: int) -> None:
    limit = 3 << 20
    partition = CompactedPartition(tmp_path)
    for i in range(800):
        partition.put_values(*[((b"%d-%d" % (i, n)).rjust(key_bytes, b"0"), b"") for n in range(100)])
    partition.roll()
    gc.collect()
    tracemalloc.start()
    try:
        result = clean_with(QuickFileSystem(), partition.job(map_bytes=limit), partition.reports.append, VirtualPace().pace)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.end_offset < 80_000
    # Pieces of the source and of the output come on top.
    assert limit / 2 < peak < limit + (8 << 20)
    assert result.keys * (80 + min(key_bytes, 41)) > limit * 0.4


def test_a_few_records_that_stay_do_not_hold_all_of_the_source_in_memory(partition: CompactedPartition) -> None:
    for i in range(60):
        partition.put_values((b"stays-%d" % i, b"v"))
        partition.put_values((b"goes", b"v" * (1 << 20)))
    partition.roll()
    gc.collect()
    tracemalloc.start()
    try:
        result = partition.clean()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.records_kept == 61
    assert peak < 16 << 20


def test_the_weight_of_the_map_is_what_python_takes_for_it() -> None:
    limit = 8 << 20
    gc.collect()
    tracemalloc.start()
    try:
        keys = OffsetMap(limit)
        peak = count = 0
        while keys.has_room(50):
            for _ in range(50):
                keys.offsets[b"key-%020d" % count] = NOW_MS + count
                count += 1
            peak = max(peak, tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert limit * 0.4 < peak <= limit


def test_the_same_keys_again_take_no_more_room() -> None:
    keys = OffsetMap(100_000)
    for offset in range(100_000):
        assert keys.has_room(10)
        keys.offsets[b"%d" % (offset % 300)] = offset


def on_a_simulated_disk(partition: CompactedPartition, directory: str) -> SimulatedDisk:
    """The partition's files on a simulated disk, durable."""
    disk = SimulatedDisk(Sometimes())
    disk.make_directories(directory)
    for name, content in partition.content().items():
        fd = disk.open_append(f"{directory}/{name}", create=True)
        disk.pwritev(fd, [content], 0)
        disk.fdatasync(fd)
        disk.close(fd)
    disk.fsync_directory(directory)
    disk.fsync_directory("/")
    return disk


def content_on(disk: SimulatedDisk, directory: str) -> dict[str, bytes]:
    contents = {}
    for name in disk.list_directory(directory):
        fd = disk.open_read(f"{directory}/{name}")
        contents[name] = disk.pread(fd, disk.size(fd), 0)
        disk.close(fd)
    return contents


def test_a_cleaned_segment_survives_a_power_cut_whole(partition: CompactedPartition) -> None:
    fill(partition, batches=5)
    partition.put_values((b"t", b"1"), producer_id=7, transactional=True)
    partition.end_transaction(7, aborts=True)
    partition.roll()
    disk = on_a_simulated_disk(partition, "/p")
    job = dataclasses.replace(partition.job(segment_bytes=900), directory="/p")
    result = clean_with(disk, job, partition.reports.append, VirtualPace().pace)
    assert len(result.segments) > 1
    cleaned = content_on(disk, "/p")
    assert len(cleaned) > len(partition.content())
    for seed in range(30):
        assert content_on(disk.crashed(random.Random(seed)), "/p") == cleaned


def test_a_power_cut_while_it_cleans_leaves_the_sources_as_they_were(partition: CompactedPartition) -> None:
    fill(partition, batches=5)
    disk = on_a_simulated_disk(partition, "/p")
    job = dataclasses.replace(partition.job(segment_bytes=900), directory="/p")
    crashed_disks: list[SimulatedDisk] = []
    disk.before = lambda _: crashed_disks.append(disk.crashed(random.Random(len(crashed_disks))))
    clean_with(disk, job, partition.reports.append, VirtualPace().pace)
    assert len(crashed_disks) > 10
    whole = content_on(disk, "/p")
    for crashed in crashed_disks:
        contents = content_on(crashed, "/p")
        assert {name: contents[name] for name in partition.content()} == partition.content()
        again = clean_with(crashed, job, partition.reports.append, VirtualPace().pace)
        assert again.segments
        assert content_on(crashed, "/p") == whole


def test_a_job_that_is_throttled_tells_of_itself_every_second_while_it_waits() -> None:
    pace, reports = VirtualPace(), list[float]()
    progress = Progress(pace.pace, 100.0, 10_000, lambda _: reports.append(pace.now))
    progress.read(10_000)
    assert len(reports) > 90
    assert max(after - before for before, after in itertools.pairwise(reports)) <= 2.0
