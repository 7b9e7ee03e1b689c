"""Power goes, or the process dies, before any operation of a swap or of the opening after it: no record that counts is lost."""

from typing import NamedTuple

import pytest

from libs.clock import SystemClock
from libs.commitlog.cleaner.cleaning import clean_with
from libs.commitlog.cleaner.job import CleanJob, ProducerEnd, SourceSegment
from libs.commitlog.cleaner.pace import JobTime
from libs.commitlog.model.config import LogConfig
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.segment import FileRegistry
from libs.commitlog.segments.segment_removal import remove_retired
from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.records import Record, build_batch
from tests.commitlog.cleaned import Keep, batches_of, clean_by_hand, latest_of_each_key, offset_of, planned
from tests.commitlog.crashes import SURVIVALS, Crash, Unkind, crashes_of
from tests.commitlog.harness import append, sync
from tests.simulation.disk import SimulatedDisk
from tests.simulation.sometimes import Sometimes

PATH = "/logs/t-0"
CONFIG = LogConfig(segment_bytes=450, segment_index_bytes=240, index_interval_bytes=150)
KEYS = 5


def opened(disk: SimulatedDisk) -> Log:
    return Log.open(PATH, "t", 0, CONFIG, disk, registry=FileRegistry(), clock=SystemClock())


def append_keyed(log: Log, count: int) -> None:
    for _ in range(count):
        offset = log.log_end_offset
        record = Record(b"k%d" % (offset % KEYS), b"v" * 20, 1000 + offset)
        batch = build_batch(
            [record], base_offset=offset, leader_epoch=offset // 10, producer_id=9, producer_epoch=0, base_sequence=offset
        )
        append(log, batch)


def filled(disk: SimulatedDisk) -> Log:
    disk.make_directories(PATH)
    disk.sync_all("/")
    log = opened(disk)
    append_keyed(log, 12)
    sync(log, resume_point=True)
    append_keyed(log, 14)
    sync(log, resume_point=True)
    assert len(log.segments) > 4
    return log


def compact(disk: SimulatedDisk, log: Log, keep: Keep, groups: int) -> None:
    """Compacts all but the active segment, into so many outputs: a child's work, then the service's."""
    sealed = list(log.segments[:-1])
    shares = [sealed[at * len(sealed) // groups : (at + 1) * len(sealed) // groups] for at in range(groups)]
    sizes = [clean_by_hand(disk, share, PATH, keep) for share in shares]
    for share, size in zip(shares, sizes, strict=True):
        swap = planned(log, share, size)
        assert swap.stage(disk)
        assert log.replace_segments(swap, share)
        append_keyed(log, 1)  # the log lives
        sync(log)
        remove_retired(disk, swap.settle(disk))


def compact_as_the_service_does(disk: SimulatedDisk, log: Log) -> None:
    """Compacts with the real cleaner."""
    sealed = {segment.base_offset: segment for segment in log.segments[:-1]}
    entry = log.producers.entries[9]
    job = CleanJob(
        directory=PATH,
        segments=tuple(SourceSegment(s.base_offset, s.next_offset, s.size) for s in sealed.values()),
        log_start_offset=0,
        first_dirty_offset=0,
        end_offset=log.segments[-1].base_offset,
        now_ms=10_000,
        delete_retention_ms=0,
        segment_bytes=1000,
        segment_index_bytes=240,
        index_interval_bytes=150,
        max_message_bytes=10_000,
        map_bytes=1 << 20,
        bytes_per_second=0,
        producers={9: ProducerEnd(entry.batches[-1].last_offset, entry.epoch)},
    )
    time = SystemClock()
    result = clean_with(disk, job, lambda _: None, JobTime(time.monotonic, lambda _: None))
    assert len(result.segments) > 1
    for cleaned in result.segments:
        sources = [sealed[base] for base in cleaned.sources]
        swap = planned(log, sources, cleaned.size)
        assert swap.stage(disk)
        assert log.replace_segments(swap, sources)
        append_keyed(log, 1)
        sync(log)
        remove_retired(disk, swap.settle(disk))


class Synced(NamedTuple):
    """The batches before a compaction. Thousands of crashes are compared with them, so they are parsed once."""

    batches: dict[int, bytes]
    """By offset."""
    wanted: set[bytes]
    """Those that no compaction may remove."""


def check(crash: Crash, before: Synced) -> Log:
    """Checks that the latest synced record of each key is there, and nothing else, in order."""
    log = opened(crash.disk)
    there = batches_of(log)
    offsets = [offset_of(batch) for batch in there]
    assert offsets == sorted(set(offsets)), crash
    assert before.wanted <= set(there), crash
    assert all(before.batches.get(offset, batch) == batch for offset, batch in zip(offsets, there, strict=True)), crash
    assert log.log_end_offset >= len(before.batches), crash
    last = log.producers.entries[9].batches[-1]
    assert last.last_sequence == log.log_end_offset - 1, crash
    left = [name for name in crash.disk.list_directory(PATH) if name.endswith((".cleaned", ".swap", ".deleted"))]
    assert left == [], crash
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        assert segment.next_offset == following.base_offset, crash
    return log


def started(groups: int, keep_none: bool) -> tuple[SimulatedDisk, Log, Synced, Keep]:
    disk = SimulatedDisk(Sometimes())
    log = filled(disk)
    end = log.segments[-1].base_offset
    keep = latest_of_each_key(log, end)
    before = batches_of(log)
    if keep_none:  # the first group keeps nothing at all: its output is empty
        first = log.segments[1].next_offset
        assert not any(keep(batch) for batch in before if offset_of(batch) < first)
    synced = Synced(
        {offset_of(batch): batch for batch in before}, {batch for batch in before if offset_of(batch) >= end or keep(batch)}
    )
    assert len(synced.batches) == len(before)
    return disk, log, synced, keep


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_no_crash_within_a_swap_loses_the_latest_of_a_key(groups: int) -> None:
    disk, log, before, keep = started(groups, keep_none=groups > 1)
    crashes = crashes_of(disk, lambda: compact(disk, log, keep, groups), list(SURVIVALS))
    assert len({crash.step for crash in crashes}) > 40
    for crash in crashes:
        again = check(crash, before)
        content = batches_of(again)
        assert batches_of(opened(crash.disk)) == content, crash  # recovering twice equals recovering once
        append_keyed(again, 3)
        sync(again, resume_point=True)
        assert len(batches_of(opened(crash.disk.crashed(Unkind())))) == len(content) + 3, crash
    kept = {offset for offset, batch in before.batches.items() if keep(batch)}
    assert {BatchHeader.at(batch).base_offset for batch in batches_of(log)} >= kept


def test_no_crash_within_a_real_run_does() -> None:
    disk, log, before, _ = started(1, keep_none=False)
    crashes = crashes_of(disk, lambda: compact_as_the_service_does(disk, log), list(SURVIVALS))
    assert len({crash.step for crash in crashes}) > 60
    for crash in crashes:
        again = check(crash, before)
        assert batches_of(opened(crash.disk)) == batches_of(again), crash


@pytest.mark.parametrize("groups", [1, 2])
def test_no_crash_within_the_opening_after_a_crash_does(groups: int) -> None:
    disk, log, before, keep = started(groups, keep_none=groups > 1)
    crashes = crashes_of(disk, lambda: compact(disk, log, keep, groups), ["killed", "nothing unsynced", "drawn 1"])
    swapping = [crash for crash in crashes if any(name.endswith(".swap") for name in crash.disk.list_directory(PATH))]
    assert len(swapping) > 10
    for crash in swapping:
        second = crash.disk
        survivals = ["killed", "nothing unsynced", "everything"]
        for again in crashes_of(second, lambda second=second: opened(second), survivals):  # type: ignore[misc]
            check(Crash(f"{crash.operation}, then {again.operation}", again.step, again.disk), before)


def test_a_cut_amid_a_swap_brings_nothing_back() -> None:
    """The log is cut after the output was staged: from then on no crash may bring the cut records back."""
    disk, log, _, keep = started(1, keep_none=False)
    sources = list(log.segments[:-1])
    swap = planned(log, sources, clean_by_hand(disk, sources, PATH, keep))
    assert swap.stage(disk)
    log.truncate_to(6)
    for name in SURVIVALS:
        assert [offset_of(batch) for batch in batches_of(opened(SURVIVALS[name](disk)))] == list(range(6)), name


@pytest.mark.parametrize("offset", [2, 7, 23])
def test_no_crash_within_a_cut_leaves_later_segments_behind_a_hole(offset: int) -> None:
    """After a cleaned segment a gap is legal, so a lost end would not be noticed."""
    disk, log, _, keep = started(1, keep_none=False)
    compact(disk, log, keep, 1)
    before = batches_of(log)
    for crash in crashes_of(disk, lambda: log.truncate_to(offset), list(SURVIVALS)):
        there = batches_of(opened(crash.disk))
        assert there == before[: len(there)], crash
        assert len(there) >= sum(offset_of(batch) < offset for batch in before), crash
