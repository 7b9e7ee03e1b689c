"""Transactions in the log: the bound of committed readers, and the records that they must leave out."""

import logging
import random
from pathlib import Path

import pytest

from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.files.page_cache import ColdRead, NonblockingLookup, NotInPageCache
from libs.commitlog.model.errors import LogWriteError
from libs.commitlog.partition_log.log import Log
from libs.commitlog.producers.producer_snapshot import parse_snapshot
from libs.commitlog.producers.producer_state import ProducerState
from libs.commitlog.producers.transaction_index import ENTRY, AbortedTransaction, TransactionIndex
from libs.commitlog.producers.transactions import EndedTransaction
from libs.commitlog.segments.segment import FileRegistry, Segment
from libs.commitlog.segments.segment_removal import remove_retired
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import BatchError, BatchHeader
from libs.wire.record_batches.markers import Marker, build_marker, read_marker
from tests.commitlog.cleaned import clean_by_hand, offset_of, planned, swap_in
from tests.commitlog.harness import (
    SMALL,
    FaultyFileSystem,
    QuickFileSystem,
    append_some,
    batch_at,
    files,
    flipped,
    meta,
    open_log,
    sync,
)
from tests.commitlog.transactional import end, is_open, produce, read_committed


def index_of(path: Path, base: int = 0) -> list[AbortedTransaction]:
    content = (path / f"{base:020d}.txnindex").read_bytes()
    return [AbortedTransaction._make(fields[1:]) for fields in ENTRY.iter_unpack(content)]


def stable(log: Log) -> int:
    """The last stable offset, with everything committed."""
    return log.last_stable_offset(log.log_end_offset)


def marker_header(*, epoch: int = 0) -> BatchHeader:
    marker = Marker(aborts=True, coordinator_epoch=0)
    return BatchHeader.at(build_marker(marker, producer_id=1, producer_epoch=epoch, timestamp_ms=0))


# --- the last stable offset


def test_without_transactions_everything_committed_is_stable(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    produce(log, 1, count=3, transactional=False)
    assert log.last_stable_offset(2) == 2


def test_an_open_transaction_holds_the_last_stable_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 2)
    first = produce(log, 1)
    produce(log, 1)
    append_some(log, 2)
    assert stable(log) == first
    assert log.last_stable_offset(1) == 1


def test_the_earliest_of_several_holds_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first, second = produce(log, 1), produce(log, 2)
    assert stable(log) == first
    end(log, 1, commit=True)
    assert stable(log) == second
    end(log, 2, commit=True)
    assert stable(log) == log.log_end_offset


def test_a_marker_counts_when_the_high_watermark_has_passed_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first = produce(log, 1)
    marker = end(log, 1, commit=True)
    assert log.last_stable_offset(marker) == first
    assert log.last_stable_offset(marker + 1) == marker + 1


def test_one_that_began_later_and_ended_earlier_is_waited_for_too(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    produce(log, 1)
    inner = produce(log, 2)
    end(log, 2, commit=True)
    outer_end = end(log, 1, commit=True)
    assert log.last_stable_offset(outer_end) == 0
    again = produce(log, 2)
    assert log.last_stable_offset(outer_end + 1) == outer_end + 1
    assert stable(log) == again
    assert inner == 1


def test_the_last_stable_offset_is_never_before_the_start(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    produce(log, 1)
    append_some(log, 5)
    log.delete_before(3, log.log_end_offset)
    log.advance_start()
    assert stable(log) == 3


def test_a_marker_for_a_producer_without_data_here_ends_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    end(log, 1, commit=False, coordinator_epoch=4)
    assert stable(log) == 1
    assert log.producers.entries[1].coordinator_epoch == 4
    log.close(clean=True)
    assert files(tmp_path, ".txnindex") == []


# --- markers


def test_markers_are_read_as_they_are_built() -> None:
    for marker in (Marker(aborts=True, coordinator_epoch=7), Marker(aborts=False, coordinator_epoch=0)):
        batch = build_marker(marker, producer_id=3, producer_epoch=2, timestamp_ms=5)
        header = BatchHeader.at(batch)
        assert read_marker(bytes(batch)) == marker
        assert header.is_control
        assert header.is_transactional
        assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (3, 2, -1, 1)


def test_a_marker_of_an_older_epoch_is_refused() -> None:
    """Regression 56: aborting an older epoch must not abort the newer."""
    state = ProducerState()
    state.replay(BatchHeader(0, 100, 0, 2, 0, 0x10, 0, 0, 0, 1, 5, 0, 1))
    with pytest.raises(BatchError) as refused:
        state.check_marker(marker_header(epoch=4), Marker(aborts=True, coordinator_epoch=0))
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    state.check_marker(marker_header(epoch=5), Marker(aborts=True, coordinator_epoch=0))


def test_a_marker_of_a_deposed_coordinator_is_refused() -> None:
    state = ProducerState()
    state.replay(marker_header(), Marker(aborts=True, coordinator_epoch=3))
    with pytest.raises(BatchError) as refused:
        state.check_marker(marker_header(), Marker(aborts=True, coordinator_epoch=2))
    assert refused.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_batch_outside_of_the_open_transaction_is_refused() -> None:
    state = ProducerState()
    state.replay(BatchHeader(0, 100, 0, 2, 0, 0x10, 0, 0, 0, 1, 0, 0, 1))
    inside = BatchHeader(0, 100, 0, 2, 0, 0x10, 0, 0, 0, 1, 0, 1, 1)
    state.check(inside)
    with pytest.raises(BatchError) as refused:
        state.check(inside._replace(attributes=0))
    assert refused.value.code == ErrorCode.INVALID_TXN_STATE
    with pytest.raises(BatchError) as stale:
        state.check(inside._replace(attributes=0, producer_epoch=-1))
    assert stale.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


# --- what is aborted


def test_aborted_transactions_are_listed_and_committed_ones_are_not(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    aborted = produce(log, 1)
    committed = produce(log, 2)
    end(log, 1, commit=False)
    end(log, 2, commit=True)
    assert read_committed(log, log.log_end_offset) == ([committed], [(1, aborted)])


def test_the_entry_names_the_earliest_other_open_transaction(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first = produce(log, 1)
    second = produce(log, 2)
    marker = end(log, 2, commit=False)
    last = end(log, 1, commit=False)
    log.close(clean=True)
    assert index_of(tmp_path) == [AbortedTransaction(2, second, marker, first), AbortedTransaction(1, first, last, last + 1)]


def test_an_abort_in_a_later_segment_is_listed_for_readers_of_an_earlier_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    produce(log, 1)
    log.roll()
    append_some(log, 2)
    log.roll()
    marker = end(log, 1, commit=False)
    log.close(clean=True)
    assert files(tmp_path, ".txnindex") == [f"{log.active.base_offset:020d}.txnindex"]
    assert read_committed(open_log(tmp_path), marker + 1).offsets == [1, 2]


def test_a_read_lists_no_transaction_that_is_over_before_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    produce(log, 1)
    end(log, 1, commit=False)
    later = produce(log, 1)
    end(log, 1, commit=False)
    assert read_committed(log, log.log_end_offset, offset=later).aborted == [(1, later)]


def test_a_failed_append_of_a_marker_leaves_the_transaction_open(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs)
    first = produce(log, 1)
    fs.fail("pwritev", after=0)
    with pytest.raises(LogWriteError):
        end(log, 1, commit=False)
    fs.heal()
    assert is_open(log, 1)
    assert stable(log) == first
    end(log, 1, commit=True)
    assert read_committed(log, log.log_end_offset) == ([first], [])


def test_a_failed_append_opens_no_transaction(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs)
    fs.fail("pwritev", after=0)
    with pytest.raises(LogWriteError):
        produce(log, 1)
    fs.heal()
    append_some(log, 1)
    assert stable(log) == 1


def test_a_marker_that_is_not_written_yet_keeps_readers_where_they_are(tmp_path: Path) -> None:
    """A fetch may come between the marker's offset being given and its write."""
    log = open_log(tmp_path)
    first = produce(log, 1)
    log.producers.record_marker(marker_header(), log.log_end_offset, Marker(aborts=True, coordinator_epoch=0))
    assert stable(log) == first
    log.producers.revert()
    assert stable(log) == first


# --- truncation


def test_a_transaction_whose_marker_is_cut_is_open_again(tmp_path: Path) -> None:
    """Regression 17, KAFKA-12153: what is unstable is known anew when the end is."""
    log = open_log(tmp_path)
    first = produce(log, 1)
    marker = end(log, 1, commit=False)
    sync(log, resume_point=True)
    log.truncate_to(marker)
    assert is_open(log, 1)
    assert stable(log) == first
    assert log.last_stable_offset(log.log_end_offset) <= log.log_end_offset
    end(log, 1, commit=True)
    assert read_committed(log, log.log_end_offset) == ([first], [])
    log.close(clean=True)
    assert files(tmp_path, ".txnindex") == []


def test_a_transaction_that_is_cut_whole_is_forgotten(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 2)
    first = produce(log, 1)
    log.truncate_to(first)
    assert not is_open(log, 1)
    assert stable(log) == first


def test_a_transaction_that_ended_before_a_truncation_stays_unreplicated(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first = produce(log, 1)
    marker = end(log, 1, commit=True)
    append_some(log, 3)
    log.truncate_to(marker + 2)
    assert log.last_stable_offset(marker) == first
    assert log.last_stable_offset(marker + 1) == marker + 1


def test_a_crash_after_a_cut_finds_no_entry_beyond_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    kept = produce(log, 1)
    kept_end = end(log, 1, commit=False)
    sync(log, resume_point=True)
    cut = produce(log, 1)
    end(log, 1, commit=False)
    sync(log, resume_point=True)
    assert len(index_of(tmp_path)) == 2
    log.truncate_to(cut)
    again = open_log(tmp_path)
    assert again.log_end_offset == cut
    first = produce(again, 1)
    end(again, 1, commit=True)
    assert read_committed(again, again.log_end_offset) == ([first], [(1, kept)])
    again.close(clean=True)
    assert index_of(tmp_path) == [AbortedTransaction(1, kept, kept_end, kept_end + 1)]


# --- opening again


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("resume_point", [True, False])
def test_open_and_ended_transactions_are_found_again(tmp_path: Path, clean: bool, resume_point: bool) -> None:
    log = open_log(tmp_path)
    aborted = produce(log, 1)
    held = produce(log, 2)
    end(log, 1, commit=False)
    sync(log, resume_point=resume_point)
    second = produce(log, 3)
    end(log, 3, commit=False)
    if clean:
        log.close(clean=True)
    again = open_log(tmp_path)
    assert stable(again) == held
    assert again.producers.transactions.ongoing == ((held, 2),)
    end(again, 2, commit=True)
    assert read_committed(again, again.log_end_offset) == ([held], [(1, aborted), (3, second)])


def test_a_clean_stop_leaves_the_index_for_the_next_opening(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first = produce(log, 1)
    marker = end(log, 1, commit=False)
    log.close(clean=True)
    assert open_log(tmp_path).scanned_bytes == 0
    assert index_of(tmp_path) == [AbortedTransaction(1, first, marker, marker + 1)]


def write_two_segments(path: Path) -> Log:
    """Writes two segments with an abort in each. The first one's transaction is open since before the second producer's."""
    log = open_log(path)
    produce(log, 1)
    produce(log, 2)
    end(log, 1, commit=False)
    log.roll()
    end(log, 2, commit=False)
    append_some(log, 1)
    log.roll()
    append_some(log, 1)
    return log


@pytest.mark.parametrize("damage", ["ragged", "version", "order", "beyond", "gone"])
@pytest.mark.parametrize("slot", [0, 1])
def test_a_damaged_index_is_made_again_from_the_batches(
    tmp_path: Path, damage: str, slot: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = write_two_segments(tmp_path)
    expected = read_committed(log, log.log_end_offset)
    log.close(clean=True)
    base = log.segments[slot].base_offset
    sound = index_of(tmp_path, base)
    file = tmp_path / f"{base:020d}.txnindex"
    content = bytearray(file.read_bytes())
    if damage == "ragged":
        content.pop()
    elif damage == "version":
        content[1] = 1
    elif damage == "order":
        content *= 2
    elif damage == "beyond":
        ENTRY.pack_into(content, 0, 0, 1, 0, 1000, 1001)
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(content)
    caplog.set_level(logging.WARNING)
    again = open_log(tmp_path)
    assert "made again from the batches" in caplog.text
    assert file.name in caplog.text
    assert read_committed(again, again.log_end_offset) == expected
    again.close(clean=True)
    assert index_of(tmp_path, base) == sound
    assert open_log(tmp_path).scanned_bytes == 0


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("is_read_first", [True, False], ids=["at the opening", "later"])
def test_no_flipped_bit_of_an_index_shows_what_was_aborted(tmp_path: Path, slot: int, *, is_read_first: bool) -> None:
    log = write_two_segments(tmp_path)
    expected = read_committed(log, log.log_end_offset)
    log.close(clean=True)
    file = tmp_path / f"{log.segments[slot].base_offset:020d}.txnindex"
    sound = file.read_bytes()
    for bit in range(8 * len(sound)):
        opened = None if is_read_first else open_log(tmp_path)
        file.write_bytes(flipped(sound, bit))
        opened = opened or open_log(tmp_path)
        assert read_committed(opened, opened.log_end_offset) == expected, bit
        opened.close(clean=False)
        file.write_bytes(sound)


def test_no_flipped_bit_of_an_offset_index_shows_what_was_aborted(tmp_path: Path) -> None:
    """Its entries bound the transactions that a reader is told of."""
    log = open_log(tmp_path)
    while len(log.segments) == 1:
        append_some(log, 1)
        produce(log, 1)
        end(log, 1, commit=False)
    expected = read_committed(log, log.log_end_offset).offsets
    log.close(clean=True)
    file = tmp_path / f"{0:020d}.index"
    sound = file.read_bytes()
    for bit in range(8 * len(sound)):
        file.write_bytes(flipped(sound, bit))
        opened = open_log(tmp_path, clean=True)
        assert read_committed(opened, opened.log_end_offset, max_bytes=200).offsets == expected, bit
        opened.close(clean=False)
        file.write_bytes(sound)


def test_no_flipped_bit_of_an_index_that_kafka_wrote_names_another_producer(tmp_path: Path) -> None:
    log = write_two_segments(tmp_path)
    expected = read_committed(log, log.log_end_offset)
    log.close(clean=True)
    for name in files(tmp_path, ".resume"):
        (tmp_path / name).unlink()
    file = tmp_path / f"{0:020d}.txnindex"
    sound = file.read_bytes()
    for bit in range(16, 80):
        file.write_bytes(flipped(sound, bit))
        opened = open_log(tmp_path, clean=True, recovery_point=log.log_end_offset)
        assert read_committed(opened, opened.log_end_offset) == expected, bit
        opened.close(clean=False)


def test_an_index_that_is_damaged_while_the_log_runs_is_made_again(tmp_path: Path) -> None:
    log = write_two_segments(tmp_path)
    expected = read_committed(log, log.log_end_offset)
    log.close(clean=True)
    again = open_log(tmp_path)
    (tmp_path / f"{0:020d}.txnindex").write_bytes(b"x" * 33)
    assert read_committed(again, again.log_end_offset) == expected


def rebuild_of_the_first_index(path: Path) -> tuple[Log, ColdRead]:
    """A log whose first index is gone, and the work that a fetch has left to a thread of its disk: to make that index again."""
    write_two_segments(path).close(clean=True)
    log = open_log(path)
    (path / f"{0:020d}.txnindex").unlink()
    piece = log.read(0, 1 << 20, log.log_end_offset, at_least_one_batch=True)
    assert piece is not None
    lookup = NonblockingLookup()
    while True:
        with pytest.raises(NotInPageCache) as miss, lookup:
            log.aborted_transactions(piece, 0, log.log_end_offset)
        read = miss.value.read
        if isinstance(read.key, tuple) and read.key[0] == "aborted transactions":
            return log, read
        lookup.take(read, read())


def test_an_index_that_a_thread_made_again_for_nobody_holds_up_no_round(tmp_path: Path) -> None:
    """The client hung up, so no attempt takes what the thread has made. Each later round of that disk failed."""
    log, rebuild = rebuild_of_the_first_index(tmp_path)
    assert rebuild().error is None
    append_some(log, 1)
    sync(log, resume_point=True)
    assert log.durable_offset == log.log_end_offset
    assert not {0, 1} & set(read_committed(log, log.log_end_offset).offsets)
    sync(log)
    assert len(index_of(tmp_path)) == 1


def test_an_index_that_a_thread_makes_again_for_a_segment_that_left_holds_up_no_round(tmp_path: Path) -> None:
    log, rebuild = rebuild_of_the_first_index(tmp_path)
    log.delete_before(log.segments[1].base_offset, log.log_end_offset)
    log.advance_start()
    assert log.retire_segments() is not None
    assert rebuild().error is None
    append_some(log, 1)
    sync(log, resume_point=True)
    assert log.durable_offset == log.log_end_offset
    assert 0 not in log.aborted.counts


# --- segments that go


def test_an_index_leaves_with_its_segment(tmp_path: Path) -> None:
    log = write_two_segments(tmp_path)
    second = log.segments[1].base_offset
    log.delete_before(second, log.log_end_offset)
    log.advance_start()
    sync(log, resume_point=True)
    retired = log.retire_segments()
    assert retired is not None
    names = retired.rename(QuickFileSystem())
    assert str(tmp_path / f"{0:020d}.txnindex.deleted") in names
    assert files(tmp_path, ".txnindex") == [f"{second:020d}.txnindex"]
    remove_retired(QuickFileSystem(), names)
    assert files(tmp_path, ".deleted") == []
    assert read_committed(log, log.log_end_offset).aborted == [(2, 1)]


def test_an_index_without_a_segment_is_swept(tmp_path: Path) -> None:
    log = write_two_segments(tmp_path)
    log.close(clean=True)
    orphan = tmp_path / f"{777:020d}.txnindex"
    orphan.write_bytes(b"")
    open_log(tmp_path)
    assert not orphan.exists()


def test_a_cut_takes_the_indexes_of_the_segments_behind_it(tmp_path: Path) -> None:
    log = write_two_segments(tmp_path)
    sync(log, resume_point=True)
    log.truncate_to(1)
    assert files(tmp_path, ".txnindex") == []
    assert stable(log) == 0


def test_the_index_is_on_disk_before_the_resume_point_behind_it(tmp_path: Path) -> None:
    class Ordered(OsFileSystem):
        def __init__(self) -> None:
            super().__init__()
            self.named: list[str] = []

        def rename(self, source: str, target: str) -> None:
            self.named.append(target.rpartition(".")[2])
            super().rename(source, target)

    fs = Ordered()
    log = open_log(tmp_path, fs)
    produce(log, 1)
    end(log, 1, commit=False)
    sync(log, resume_point=True)
    assert fs.named.index("txnindex") < fs.named.index("resume")


def test_a_snapshot_between_a_transaction_and_its_marker_has_it_open(tmp_path: Path) -> None:
    """Regression 31: a marker that is written with the batches before it, and begins the next segment."""
    log = open_log(tmp_path)
    marker = Marker(aborts=True, coordinator_epoch=0)
    data = batch_at(0, size=870, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    ending = build_marker(marker, producer_id=1, producer_epoch=0, timestamp_ms=1000, base_offset=1, leader_epoch=0)
    log.producers.record(BatchHeader.at(data), 0)
    log.producers.record_marker(BatchHeader.at(ending), 1, marker)
    log.append([data, ending], [meta(data), meta(ending)])
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    sync(log)
    path = tmp_path / f"{1:020d}.snapshot"
    assert parse_snapshot(path.read_bytes(), str(path))[1].transaction_first_offset == 0
    assert read_committed(log, 2).offsets == []
    log.close(clean=True)
    assert index_of(tmp_path, 1) == [AbortedTransaction(1, 0, 1, 2)]


def test_a_segment_that_takes_the_place_of_others_brings_its_index(tmp_path: Path) -> None:
    log = write_two_segments(tmp_path)
    log.close(clean=True)
    first, second = (segment.base_offset for segment in log.segments[:2])
    merged = index_of(tmp_path, second)[0]
    (tmp_path / f"{first:020d}.txnindex").write_bytes(ENTRY.pack(0, *merged))
    (tmp_path / f"{second:020d}.txnindex").unlink()
    log.aborted.replaced((first, second), first, ENTRY.pack(0, *merged))
    assert log.aborted.counts == {first: 1}
    fresh = Segment(QuickFileSystem(), str(tmp_path), first, SMALL, FileRegistry())
    fresh.next_offset = log.segments[2].base_offset
    assert log.aborted.between([fresh, *log.segments[2:]], 0, 100) == [merged]


def test_a_cleaned_segment_takes_its_place_without_waiting_for_the_disk(tmp_path: Path) -> None:
    """The log's thread is an event loop: another thread has read the index when the swap was staged."""
    log = open_log(tmp_path)
    produce(log, 2)
    end(log, 2, commit=False)
    log.roll()
    append_some(log, 1)
    sync(log, resume_point=True)
    sources, fs = log.segments[:1], QuickFileSystem()
    kept = index_of(tmp_path)
    size = clean_by_hand(fs, sources, log.directory, lambda _: True)
    (tmp_path / f"{0:020d}.txnindex.cleaned").write_bytes(ENTRY.pack(0, *kept[0]))
    swap = planned(log, sources, size)
    assert swap.stage(fs)
    with NonblockingLookup():
        assert log.replace_segments(swap, sources)
    assert log.aborted.counts == {0: 1}
    assert log.aborted.between(log.segments, 0, log.log_end_offset) == kept


def test_the_index_of_a_cleaned_segment_is_believed_after_a_crash(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The newest resume point describes the index that was there before."""
    log = open_log(tmp_path)
    dropped = [produce(log, 1), end(log, 1, commit=False)]
    produce(log, 2)
    end(log, 2, commit=False)
    log.roll()
    append_some(log, 1)
    sync(log, resume_point=True)
    sources, fs = log.segments[:1], QuickFileSystem()
    kept = index_of(tmp_path)[1:]
    size = clean_by_hand(fs, sources, log.directory, lambda batch: offset_of(batch) not in dropped)
    (tmp_path / f"{0:020d}.txnindex.cleaned").write_bytes(ENTRY.pack(0, *kept[0]))
    swap_in(fs, log, sources, size)
    log.close(clean=False)
    again = open_log(tmp_path)
    assert again.aborted.between(again.segments, 0, again.log_end_offset) == kept
    assert again.scanned_bytes == 0
    assert "made again" not in caplog.text


def test_the_search_among_aborted_transactions_finds_what_a_walk_over_all_finds() -> None:
    """Some are open for long beside many short ones, so that first offsets are in no order. Cuts leave any number of entries."""
    dice = random.Random(7)
    for _ in range(30):
        index, entries, offset = TransactionIndex(), [], 0
        ongoing: list[int] = []
        for _ in range(dice.randrange(3000)):
            offset += 1 + dice.randrange(3)
            if dice.random() < 0.5 or not ongoing:
                ongoing.append(offset)
                continue
            first = ongoing.pop(dice.choice((0, -1, -1, -1)))
            stable = min(ongoing, default=offset + 1)
            ended = EndedTransaction(dice.randrange(9), first, offset, stable, True)
            index.append(ended)
            entries.append(AbortedTransaction(*ended[:4]))
        if dice.random() < 0.5:
            end = dice.randrange(offset + 2)
            index.cut(end)
            entries = [entry for entry in entries if entry.last_offset < end]
        for each in (index, TransactionIndex.parse(index.content, "path", 0)):
            for _ in range(20):
                start = dice.randrange(offset + 2)
                upper, count_max = start + dice.choice((1, 5, 500, 5000)), dice.choice((0, 3, 1 << 30))
                found: list[AbortedTransaction] = []
                complete = each.collect(start, upper, found, count_max)
                expected = [entry for entry in entries if entry.last_offset >= start and entry.first_offset < upper]
                assert found == expected[: count_max + 1]
                is_last = any(entry.last_offset >= start and entry.last_stable_offset >= upper for entry in entries)
                assert complete == (len(found) > count_max or is_last)


class WatchedIndex(TransactionIndex):
    """An index that counts the entries at which it looks."""

    looked_at = 0

    def _first_offset(self, slot: int) -> int:
        self.looked_at += 1
        return super()._first_offset(slot)


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 992, 1020, 1024, 1025, 2016, 2047, 2048, 2099])
def test_a_cut_looks_at_few_entries_and_leaves_what_a_shorter_index_would_have(count: int) -> None:
    """Clients may have aborted a million transactions before it."""
    whole = TransactionIndex()
    for each in range(2100):
        whole.append(EndedTransaction(1, each * 7919 % 2000, 2000 + each, 2001 + each, True))
    index = WatchedIndex.parse(whole.content, "path", 0)
    assert isinstance(index, WatchedIndex)
    shorter = TransactionIndex.parse(whole.content[: count * ENTRY.size], "path", 0)
    assert index.cut(2000 + count)
    assert index.looked_at < 32
    for each in (index, shorter):
        each.append(EndedTransaction(1, 1500, 5000, 5001, True))
    assert index.content == shorter.content
    for upper_bound in range(0, 2100, 20):
        found: list[list[AbortedTransaction]] = [[], []]
        assert index.collect(0, upper_bound, found[0]) == shorter.collect(0, upper_bound, found[1])
        assert found[0] == found[1]
