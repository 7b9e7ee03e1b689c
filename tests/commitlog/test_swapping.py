"""Cleaned segments take their place in a log that lives: readers go on, the world may change meanwhile, and gaps are legal."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from libs.commitlog.files.contiguity import GAPS_ANYWHERE, contiguous_from
from libs.commitlog.files.sync import run_round
from libs.commitlog.inspection.directory import verify
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.model.errors import LogDamaged, LogWriteError
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.segment import FileRegistry, Segment
from libs.commitlog.segments.segment_removal import remove_retired
from libs.commitlog.segments.swapping import finish_swaps
from libs.commitlog.segments.timestamp_search import BatchOpening
from libs.wire.record_batches.records import Record, build_batch
from tests.commitlog.cleaned import batches_of, clean_by_hand, key_of, latest_of_each_key, offset_of, planned, swap_in
from tests.commitlog.harness import (
    FaultyFileSystem,
    QuickFileSystem,
    append,
    content,
    files,
    offset_for_timestamp,
    open_log,
    read_batches,
    result_of,
    sync,
)

FS = QuickFileSystem()
KEYS = 7


def keyed(offset: int, **fields: Any) -> bytearray:
    record = Record(b"k%d" % (offset % KEYS), b"%d" % offset + b"v" * 20, 1000 + offset)
    return build_batch([record], base_offset=offset, leader_epoch=0, **fields)


def filled(path: Path, count: int = 60, **options: Any) -> Log:
    """Many segments of batches with few keys, all of it synced, with a resume point in the last."""
    log = open_log(path, **options)
    for _ in range(count):
        append(log, keyed(log.log_end_offset))
    sync(log, resume_point=True)
    assert len(log.segments) > 4
    return log


def compacted(path: Path, **options: Any) -> Log:
    """A log whose segments, except the active one, are compacted into one."""
    log = filled(path, **options)
    sources = log.segments[:-1]
    size = clean_by_hand(FS, sources, log.directory, latest_of_each_key(log, sources[-1].next_offset))
    swap_in(FS, log, sources, size)
    return log


def offsets(log: Log) -> list[int]:
    return [offset_of(batch) for batch in batches_of(log)]


def test_a_cleaned_segment_takes_the_place_of_its_sources(tmp_path: Path) -> None:
    log = filled(tmp_path)
    sources, before = log.segments[:-1], batches_of(log)
    end = sources[-1].next_offset
    keep = latest_of_each_key(log, end)
    size = clean_by_hand(FS, sources, log.directory, keep)
    left = swap_in(FS, log, sources, size)
    expected = [batch for batch in before if offset_of(batch) >= end or keep(batch)]
    assert batches_of(log) == expected
    assert [bytes(batch.view) for batch in read_batches(log, 0)] == expected
    assert len(log.segments) == 2
    assert (log.log_start_offset, log.segments[0].next_offset) == (0, end)
    assert len(left) == len(files(tmp_path, ".deleted")) == 3 * len(sources)
    remove_retired(FS, left)
    assert files(tmp_path, ".deleted") == files(tmp_path, ".swap") == files(tmp_path, ".cleaned") == []
    assert len(files(tmp_path, ".log")) == 2
    sync(log)
    assert not [name for name in files(tmp_path, ".snapshot") if 0 < int(name[:20]) < end]
    for clean in (False, True):
        log.close(clean=clean)
        log = open_log(tmp_path, clean=clean)
        assert batches_of(log) == expected
        assert log.truncated_bytes == 0


def test_a_roll_within_a_round_still_gets_its_resume_point(tmp_path: Path) -> None:
    """Without it recovery would begin with the segment before, which neither retention nor a swap could take away."""
    log = open_log(tmp_path)
    append(log, keyed(0))
    targets = log.sync_targets(resume_point=True)
    assert targets is not None
    log.roll()
    assert not log.want_resume_point(1)
    run_round([targets], FS, log.directory)
    log.mark_synced(targets)
    sync(log)
    assert log.want_resume_point(1)
    assert log.sync_targets() is None


def test_a_swap_whose_output_is_gone_takes_nothing_away(tmp_path: Path) -> None:
    log = filled(tmp_path)
    sources, before = log.segments[:-1], batches_of(log)
    size = clean_by_hand(FS, sources, log.directory, latest_of_each_key(log, sources[-1].next_offset))
    swap = planned(log, sources, size)
    assert swap.stage(FS)
    (tmp_path / files(tmp_path, ".log.swap")[0]).unlink()
    with pytest.raises(FileNotFoundError, match="gone"):
        log.replace_segments(swap, sources)
    assert batches_of(log) == before
    log.close(clean=False)
    assert batches_of(open_log(tmp_path)) == before


def test_a_read_within_a_gap_finds_what_follows_it(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    there = offsets(log)
    for offset in range(log.log_end_offset):
        piece = log.read(offset, 1 << 20, log.log_end_offset, at_least_one_batch=True)
        assert piece is not None
        assert piece.first_offset == next(existing for existing in there if existing >= offset)


def test_a_timestamp_in_a_gap_is_answered_by_what_follows_it(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    there = offsets(log)
    for timestamp in range(1000, 1000 + log.log_end_offset):
        result = offset_for_timestamp(log, timestamp, log.log_end_offset)
        assert result is not None
        assert result.offset == next(offset for offset in there if offset + 1000 >= timestamp)


def test_a_segment_of_which_nothing_is_left_is_passed_over(tmp_path: Path) -> None:
    log = filled(tmp_path)
    middle, before = log.segments[1:3], batches_of(log)
    start, end = middle[0].base_offset, middle[-1].next_offset
    size = clean_by_hand(FS, middle, log.directory, lambda batch: False)
    assert size == 0
    swap_in(FS, log, middle, size)
    expected = [batch for batch in before if not start <= offset_of(batch) < end]
    for _ in range(2):
        assert batches_of(log) == expected
        assert [bytes(batch.view) for batch in read_batches(log, start)] == [b for b in expected if offset_of(b) >= end]
        result = offset_for_timestamp(log, 1000 + start, log.log_end_offset)
        assert result is not None
        assert result.offset == end
        log = open_log(tmp_path)


def test_a_reader_keeps_what_it_holds(tmp_path: Path) -> None:
    registry = FileRegistry()
    log = filled(tmp_path, registry=registry)
    piece = log.read(0, 1 << 20, log.log_end_offset, at_least_one_batch=True)
    assert piece is not None
    before, fd = content(piece), piece.file.open_readonly()
    sources = log.segments[:-1]
    size = clean_by_hand(FS, sources, log.directory, latest_of_each_key(log, sources[-1].next_offset))
    remove_retired(FS, swap_in(FS, log, sources, size))
    assert os.pread(fd, piece.length, piece.position) == before
    os.close(fd)
    assert registry.get(piece.file.file_id) is None


def test_a_source_that_nobody_had_open_is_not_opened_under_its_old_name(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close(clean=True)
    log = open_log(tmp_path, clean=True)
    sources: Sequence[Segment] = log.segments[:-1]
    size = clean_by_hand(FS, sources, log.directory, latest_of_each_key(log, sources[-1].next_offset))
    log = open_log(tmp_path)  # sweeps
    sources = log.segments[:-1]
    size = clean_by_hand(FS, open_log(tmp_path, clean=True).segments[:-1], log.directory, lambda batch: offset_of(batch) > 30)
    swap_in(FS, log, sources, size)
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path, "index")}
    with pytest.raises(OSError, match=r"took its place|replaced"):
        sources[0].find(0)
    with pytest.raises(OSError, match=r"took its place|replaced"):
        sources[1].file.open_readonly()
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path, "index")} == before


def test_a_search_that_was_under_way_goes_on_in_the_new_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(60):  # the header claims a later timestamp than any of its records, so that each batch must be opened
        batch = keyed(log.log_end_offset)
        batch[35:43] = (9000).to_bytes(8, "big")
        append(log, batch)
    sync(log, resume_point=True)
    search = log.search_timestamp(1000 + 50, log.log_end_offset)
    opening = search.send(result_of(next(search)))
    sources = log.segments[:-1]
    size = clean_by_hand(FS, sources, log.directory, lambda batch: offset_of(batch) % 2 == 0)
    swap_in(FS, log, sources, size)
    assert isinstance(opening, BatchOpening)
    assert opening.place.base_offset == 0
    for offset in range(2, 51, 2):
        result = result_of(opening)
        while not isinstance(opening := search.send(result), BatchOpening):
            result = result_of(opening)
        assert opening.place.base_offset == offset
    with pytest.raises(StopIteration) as done:
        search.send(result_of(opening))
    assert done.value.value.offset == 50


def test_no_swap_while_recovery_would_begin_with_a_source(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(60):
        append(log, keyed(log.log_end_offset))
    sources = log.segments[:-1]
    end = sources[-1].next_offset
    assert log.plan_swap(sources, 0) is None
    assert not log.want_resume_point(end)
    sync(log)
    assert log.want_resume_point(end)
    assert log.plan_swap(sources, 0) is not None
    assert log.plan_swap(log.segments, 0) is None  # the active one


def test_a_cut_in_between_throws_the_result_away(tmp_path: Path) -> None:
    log = filled(tmp_path)
    sources = log.segments[:-1]
    size = clean_by_hand(FS, sources, log.directory, latest_of_each_key(log, sources[-1].next_offset))
    swap = planned(log, sources, size)
    assert swap.stage(FS)
    log.truncate_to(20)
    assert files(tmp_path, ".swap") == []  # else a crash would bring back what was cut
    assert not log.replace_segments(swap, sources)
    swap.discard(FS)
    assert offsets(log) == list(range(20))


def test_a_cut_before_the_files_are_staged_throws_the_result_away(tmp_path: Path) -> None:
    log = filled(tmp_path)
    sources = log.segments[:-1]
    size = clean_by_hand(FS, sources, log.directory, latest_of_each_key(log, sources[-1].next_offset))
    swap = planned(log, sources, size)
    log.truncate_to(20)
    assert not swap.stage(FS)
    assert files(tmp_path, ".swap") == []
    assert offsets(open_log(tmp_path)) == list(range(20))


def test_retention_in_between_throws_the_result_away(tmp_path: Path) -> None:
    log = filled(tmp_path)
    sources = list(log.segments[:-1])
    size = clean_by_hand(FS, sources, log.directory, latest_of_each_key(log, sources[-1].next_offset))
    swap = planned(log, sources, size)
    assert swap.stage(FS)
    start = log.segments[2].base_offset
    log.delete_before(start, log.log_end_offset)
    log.advance_start()
    retired = log.retire_segments()
    assert retired is not None
    assert not log.replace_segments(swap, sources)
    swap.discard(FS)
    retired.rename(FS)
    assert files(tmp_path, ".swap") == []
    assert offsets(log) == list(range(start, 60))


def test_a_swap_that_retention_overtook_is_harmless_after_a_crash(tmp_path: Path) -> None:
    log = filled(tmp_path)
    sources = list(log.segments[:-1])
    end = sources[-1].next_offset
    keep = latest_of_each_key(log, end)
    swap = planned(log, sources, clean_by_hand(FS, sources, log.directory, keep))
    assert swap.stage(FS)
    start = log.segments[2].base_offset
    log.delete_before(start, log.log_end_offset)
    log.advance_start()
    retired = log.retire_segments()
    assert retired is not None
    retired.rename(FS)
    log = open_log(tmp_path, log_start_offset=start)
    remaining = [offset for offset in offsets(log) if offset >= start]
    assert remaining == [offset for offset in range(start, 60) if offset >= end - KEYS or offset >= end]


@pytest.mark.parametrize("after", range(0, 17, 4))
def test_a_disk_that_refuses_a_name_leaves_everything_as_it_was(tmp_path: Path, after: int) -> None:
    fs = FaultyFileSystem()
    log = filled(tmp_path, fs=fs)
    sources, before = log.segments[:-1], batches_of(log)
    size = clean_by_hand(fs, sources, log.directory, latest_of_each_key(log, sources[-1].next_offset))
    swap = planned(log, sources, size)
    assert swap.stage(fs)
    names = sorted(os.listdir(tmp_path))
    fs.fail("rename", after=after, error=errno.ENOSPC, once=True)
    with pytest.raises(OSError, match="No space"):
        log.replace_segments(swap, sources)
    assert sorted(os.listdir(tmp_path)) == names
    assert batches_of(log) == before
    append(log, keyed(log.log_end_offset))
    assert log.replace_segments(swap, sources)


def test_a_disk_that_takes_no_name_back_takes_the_log_away(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    log = filled(tmp_path, fs=fs)
    sources = log.segments[:-1]
    end = sources[-1].next_offset
    keep, before = latest_of_each_key(log, end), batches_of(log)
    swap = planned(log, sources, clean_by_hand(fs, sources, log.directory, keep))
    assert swap.stage(fs)
    fs.fail("rename", after=5, error=errno.EIO)
    with pytest.raises(LogWriteError, match="half-way"):
        log.replace_segments(swap, sources)
    with pytest.raises(LogWriteError):
        append(log, keyed(log.log_end_offset))
    assert batches_of(open_log(tmp_path)) == [batch for batch in before if offset_of(batch) >= end or keep(batch)]


def test_one_may_be_cleaned_again_while_the_files_of_the_last_time_are_there(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for _ in range(60):
        append(log, keyed(log.log_end_offset))
    sync(log, resume_point=True)
    sources = log.segments[:-1]
    size = clean_by_hand(FS, sources, log.directory, latest_of_each_key(log, sources[-1].next_offset))
    left = swap_in(FS, log, sources, size)
    assert len(log.segments) == 2
    remove_retired(FS, left)
    expected = batches_of(log)
    assert {key_of(batch) for batch in expected} == {b"k%d" % key for key in range(KEYS)}
    assert batches_of(open_log(tmp_path)) == expected


@pytest.mark.parametrize("offset", range(0, 60, 3))
def test_a_compacted_log_can_be_cut_anywhere(tmp_path: Path, offset: int) -> None:
    log = filled(tmp_path)
    for _ in range(2):  # one that keeps little, and one that is empty
        sources = log.segments[1:3]
        size = clean_by_hand(FS, sources, log.directory, lambda batch: offset_of(batch) % 5 == 0)
        swap_in(FS, log, sources, size)
    sources = log.segments[2:3]
    swap_in(FS, log, sources, clean_by_hand(FS, sources, log.directory, lambda batch: False))
    there = offsets(log)
    assert log.truncate_to(offset) == offset
    expected = [existing for existing in there if existing < offset]
    assert offsets(log) == expected
    append(log, keyed(offset))
    for _ in range(2):
        assert offsets(log) == [*expected, offset]
        assert log.log_end_offset == offset + 1
        for segment, following in zip(log.segments, log.segments[1:], strict=False):
            assert segment.next_offset == following.base_offset
        log = open_log(tmp_path)


def test_producers_are_found_again_after_a_cut_of_a_compacted_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(60):
        append(log, keyed(log.log_end_offset, producer_id=7, producer_epoch=0, base_sequence=number))
    sync(log, resume_point=True)
    sources = log.segments[:-2]
    size = clean_by_hand(FS, sources, log.directory, latest_of_each_key(log, sources[-1].next_offset))
    swap_in(FS, log, sources, size)
    sync(log)
    end = sources[-1].next_offset
    log.truncate_to(end)
    assert log.producers.entries[7].batches[-1].last_sequence == end - 1
    assert open_log(tmp_path).producers.entries[7].batches[-1].last_sequence == end - 1


def test_gaps_are_legal_only_where_something_was_cleaned(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert contiguous_from(FS, log.directory) == 0
    sources = log.segments[:2]
    swap_in(FS, log, sources, clean_by_hand(FS, sources, log.directory, lambda batch: offset_of(batch) == 0))
    assert contiguous_from(FS, log.directory) == sources[-1].next_offset
    expected = offsets(log)
    log.close(clean=False)
    for name in files(tmp_path, ".resume"):
        (tmp_path / name).unlink()
    again = open_log(tmp_path)
    assert (again.truncated_bytes, offsets(again)) == (0, expected)
    again.close(clean=False)
    for name in files(tmp_path, ".resume"):
        (tmp_path / name).unlink()
    victim = again.segments[-3]
    os.truncate(victim.file.path, victim.size - len(victim.batch_at(list(victim.walk(0, victim.size))[-1])))
    cut = open_log(tmp_path)  # the end of a segment that a crash took, as before
    assert cut.truncated_bytes > 0
    assert cut.log_end_offset == victim.next_offset - 1
    (tmp_path / "gapless").write_bytes(b"what?")
    assert contiguous_from(FS, log.directory) == GAPS_ANYWHERE


def test_no_older_resume_point_names_what_is_gone(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(2):
        for _ in range(30):
            append(log, keyed(log.log_end_offset))
        sync(log, resume_point=True)
    older, newest = files(tmp_path, ".resume")
    sources = log.segments[:-1]
    assert int(older[:20]) < sources[-1].next_offset <= int(newest[:20])
    size = clean_by_hand(FS, sources, log.directory, latest_of_each_key(log, sources[-1].next_offset))
    swap_in(FS, log, sources, size)
    assert files(tmp_path, ".resume") == [newest]
    expected = batches_of(log)
    (tmp_path / newest).write_bytes(b"damaged")
    assert batches_of(open_log(tmp_path)) == expected


def test_files_of_an_earlier_child_do_not_undo_a_swap_that_has_begun(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    log = filled(tmp_path, fs=fs)
    sources, before = log.segments[1:3], batches_of(log)
    (tmp_path / f"{0:020d}.log.cleaned").write_bytes(b"")
    cleaned_away = range(sources[0].base_offset, sources[-1].next_offset)
    swap = planned(log, sources, clean_by_hand(fs, sources, log.directory, lambda batch: False))
    assert swap.stage(fs)
    fs.fail("rename", after=5, error=errno.EIO)
    with pytest.raises(LogWriteError, match="half-way"):
        log.replace_segments(swap, sources)
    assert batches_of(open_log(tmp_path)) == [batch for batch in before if offset_of(batch) not in cleaned_away]


def test_a_swap_that_failed_does_not_come_back_behind_a_later_one(tmp_path: Path) -> None:
    log = filled(tmp_path)
    middle = log.segments[2:4]
    failed = planned(log, middle, clean_by_hand(FS, middle, log.directory, lambda batch: False))
    assert failed.stage(FS)
    sources = log.segments[:2]
    swap_in(FS, log, sources, clean_by_hand(FS, sources, log.directory, lambda batch: offset_of(batch) < 5))
    expected = batches_of(log)
    assert batches_of(open_log(tmp_path)) == expected


@pytest.mark.parametrize("clean", [True, False])
def test_our_own_judge_finds_a_compacted_log_sound(tmp_path: Path, *, clean: bool) -> None:
    path = tmp_path / "logs" / "t-0"
    path.mkdir(parents=True)
    log = compacted(path)
    middle = log.segments[:1]
    sync(log)
    swap_in(FS, log, middle, clean_by_hand(FS, middle, log.directory, lambda batch: offset_of(batch) % 2 == 0))
    log.close(clean=clean)
    findings = Findings()
    verify(FS, str(path.parent), findings, records=True)
    theirs = ("partition.metadata", "meta.properties", ".deleted")  # what Log alone does not write, and what waits for its end
    assert [str(finding) for finding in findings.entries if not finding.path.endswith(theirs)] == []


def kafkas_swap(path: Path, *, log_first: bool) -> tuple[list[bytes], int]:
    """A directory as Kafka leaves it in the middle of a swap: no resume points and no sidecars of ours."""
    log = filled(path)
    sources = log.segments[:3]
    end = sources[-1].next_offset
    keep, before = latest_of_each_key(log, end), batches_of(log)
    clean_by_hand(FS, sources, log.directory, keep)
    stem = path / f"{0:020d}"
    for suffix in (".log", ".index", ".timeindex"):
        os.rename(f"{stem}{suffix}.cleaned", f"{stem}{suffix}.swap")
    if log_first:  # Kafka renames the log, then the others
        for source in sources:
            for suffix in (".log", ".index", ".timeindex"):
                os.rename(path / f"{source.base_offset:020d}{suffix}", path / f"{source.base_offset:020d}{suffix}.deleted")
        os.rename(f"{stem}.log.swap", f"{stem}.log")
        (path / f"{0:020d}.txnindex.swap").write_bytes(b"")
    for name in os.listdir(path):
        if name.endswith((".resume", "gapless")):
            (path / name).unlink()
    return [batch for batch in before if offset_of(batch) >= end or keep(batch)], end


@pytest.mark.parametrize("log_first", [False, True])
def test_a_swap_that_kafka_left_is_finished(tmp_path: Path, *, log_first: bool) -> None:
    expected, end = kafkas_swap(tmp_path, log_first=log_first)
    finish_swaps(FS, str(tmp_path))
    assert (tmp_path / f"{0:020d}.txnindex").exists() == log_first
    log = open_log(tmp_path)
    assert batches_of(log) == expected
    assert log.truncated_bytes == 0
    assert [segment.base_offset for segment in log.segments[:2]] == [0, end]
    assert files(tmp_path, ".swap") == files(tmp_path, ".deleted") == []


def test_a_leftover_swap_does_not_cost_the_producer_state(tmp_path: Path) -> None:
    """KAFKA-12520."""
    log = open_log(tmp_path)
    for number in range(60):
        append(log, keyed(log.log_end_offset, producer_id=7, producer_epoch=0, base_sequence=number))
    sync(log, resume_point=True)
    sources = log.segments[:3]
    swap = planned(log, sources, clean_by_hand(FS, sources, log.directory, lambda batch: False))
    assert swap.stage(FS)
    again = open_log(tmp_path)
    assert again.scanned_bytes == 0
    assert again.producers.entries == log.producers.entries


def test_one_of_several_outputs_waits_for_all_of_them(tmp_path: Path) -> None:
    """Kafka splits a segment whose offsets overflow: the last part is called `.swap` first."""
    log = filled(tmp_path)
    before, middle = batches_of(log), log.segments[1:2]
    clean_by_hand(FS, middle, log.directory, lambda batch: False)
    stem = tmp_path / f"{middle[0].base_offset:020d}"
    for suffix in (".index", ".timeindex", ".log"):
        os.rename(f"{stem}{suffix}.cleaned", f"{stem}{suffix}.swap")
    (tmp_path / f"{0:020d}.log.cleaned").write_bytes(b"")
    assert batches_of(open_log(tmp_path)) == before
    assert files(tmp_path, ".swap") == files(tmp_path, ".cleaned") == []


def test_a_damaged_swap_is_undone_while_its_sources_are_there(tmp_path: Path) -> None:
    log = filled(tmp_path)
    before, sources = batches_of(log), log.segments[:2]
    swap = planned(log, sources, clean_by_hand(FS, sources, log.directory, lambda batch: offset_of(batch) < 3))
    assert swap.stage(FS)
    name = tmp_path / f"{0:020d}.log.swap"
    os.truncate(name, name.stat().st_size - 1)
    assert batches_of(open_log(tmp_path)) == before


@pytest.mark.parametrize("batches", [0, 1])
def test_a_swap_that_lost_its_end_is_undone_although_it_ends_with_a_batch(tmp_path: Path, batches: int) -> None:
    log = filled(tmp_path)
    before, sources = batches_of(log), log.segments[:2]
    swap = planned(log, sources, clean_by_hand(FS, sources, log.directory, lambda batch: offset_of(batch) < 3))
    assert swap.stage(FS)
    os.truncate(tmp_path / f"{0:020d}.log.swap", sum(map(len, before[:batches])))
    assert batches_of(open_log(tmp_path)) == before
    assert files(tmp_path, ".swap") == []


def test_a_swap_that_nobody_noted_is_undone(tmp_path: Path) -> None:
    log = filled(tmp_path)
    before = batches_of(log)
    (tmp_path / f"{0:020d}.log.swap").touch()
    assert batches_of(open_log(tmp_path)) == before


def test_a_damaged_swap_without_its_sources_is_said(tmp_path: Path) -> None:
    log = filled(tmp_path)
    sources = log.segments[:2]
    swap = planned(log, sources, clean_by_hand(FS, sources, log.directory, lambda batch: offset_of(batch) < 3))
    assert swap.stage(FS)
    name = tmp_path / f"{0:020d}.log.swap"
    os.truncate(name, name.stat().st_size - 1)
    (tmp_path / f"{0:020d}.log").unlink()
    with pytest.raises(LogDamaged, match="no batch at position"):
        open_log(tmp_path)
    assert name.exists()
