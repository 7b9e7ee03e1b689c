"""Truncation cuts, syncs and rolls: no byte that was readable is written again."""

from pathlib import Path

import pytest

from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import LogDamaged, OffsetOutOfRange
from tests.commitlog.harness import (
    FaultyFileSystem,
    all_bytes,
    append,
    append_some,
    batch_at,
    files,
    open_log,
    read_batches,
    sync,
)


def test_truncation_keeps_what_lies_before(tmp_path: Path) -> None:
    for cut in range(41):
        log = open_log(tmp_path / str(cut))
        append_some(log, 40)
        before = b"".join(bytes(batch.view) for batch in read_batches(log, 0, end_offset=cut))
        assert log.truncate_to(cut) == cut
        assert all_bytes(log) == before
        append_some(log, 3)
        assert log.log_end_offset == cut + 3
        assert open_log(tmp_path / str(cut)).log_end_offset == cut + 3


def test_truncation_within_a_batch_drops_the_whole_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch_at(0, count=5), batch_at(5, count=5))
    assert log.truncate_to(7) == 5


def test_a_cut_is_on_disk_before_anything_follows_it(tmp_path: Path) -> None:
    """Otherwise a power cut could bring back cut records, in front of newer ones."""
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs, LogConfig())
    append_some(log, 10)
    sync(log)
    fs.calls.clear()
    log.truncate_to(5)
    cut = fs.calls.index("truncate")
    assert fs.calls[cut + 1] == "fdatasync"
    assert cut < fs.calls.index("fsync_directory") < fs.calls.index("create")


def test_appends_after_a_truncation_go_to_another_file(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 4)
    inode = Path(log.active.file.path).stat().st_ino
    log.truncate_to(2)
    append_some(log, 1)
    assert Path(log.active.file.path).stat().st_ino != inode
    assert log.active.base_offset == 2
    log.truncate_to(2)  # the very start of a segment: its file goes, another of that name comes
    file_id = log.active.file.file_id
    append_some(log, 1)
    log.truncate_to(2)
    assert log.active.file.file_id != file_id


def test_truncation_to_nothing_then_append(tmp_path: Path) -> None:
    """KAFKA-6492, KAFKA-9491."""
    log = open_log(tmp_path)
    append_some(log, 20)
    sync(log)
    assert log.truncate_to(0) == 0
    assert (log.log_end_offset, log.durable_offset, log.recovery_point) == (0, 0, 0)
    assert log.producers.entries == {}
    append_some(log, 2)
    assert open_log(tmp_path).log_end_offset == 2


def test_truncation_to_the_end_trims_epochs_in_which_nothing_was_written(tmp_path: Path) -> None:
    """KAFKA-10706."""
    log = open_log(tmp_path)
    append_some(log, 3, epoch=1)
    log.epochs.assign(5, 3)
    assert log.truncate_to(3) == 3
    assert log.epochs.entries() == [(1, 0)]


def test_truncation_brings_producers_back_to_the_cut(tmp_path: Path) -> None:
    """KAFKA-6683, KAFKA-5249."""
    for resume_at in (None, 5, 12, 25):
        log = open_log(tmp_path / str(resume_at))
        seen = []
        for i in range(30):
            append(log, batch_at(i, producer_id=i % 2, producer_epoch=0, base_sequence=i // 2))
            seen.append(dict(log.producers.entries))
            if i == resume_at:
                sync(log, resume_point=True)
        log.truncate_to(17)
        if resume_at == 25 or resume_at is None:
            # Only Kafka's snapshots at segment starts remain, which keep one batch of each producer.
            expected = {pid: entry.batches[-1] for pid, entry in seen[16].items()}
            assert {pid: entry.batches[-1] for pid, entry in log.producers.entries.items()} == expected
        else:
            assert log.producers.entries == seen[16]


def test_producers_are_remembered_where_retention_and_a_truncation_meet(tmp_path: Path) -> None:
    """The snapshot with which a segment begins waited for the next round, and a truncation behind it dropped it. Once the
    segments before were gone, the producers that wrote them were unknown."""
    log = open_log(tmp_path)
    append(log, batch_at(0, producer_id=7, producer_epoch=0, base_sequence=0, count=3))
    log.roll()
    append_some(log, 10)
    kept = 3
    log.truncate_to(12)
    append_some(log, 1)
    log.roll()
    append_some(log, 2)
    sync(log, resume_point=True)
    log.delete_before(kept, kept)
    log.advance_start()
    sync(log)
    assert log.retire_segments() is not None
    before = dict(log.producers.entries)
    log.truncate_to(12)
    assert log.producers.entries == before
    assert [batch.last_offset for batch in before[7].batches] == [2]


def test_producers_are_remembered_when_all_that_retention_left_is_cut(tmp_path: Path) -> None:
    """The snapshot with which the first segment begins is as of where the log is cut, and went with the segment."""
    log = open_log(tmp_path)
    append(log, batch_at(0, producer_id=7, producer_epoch=0, base_sequence=0, count=3))
    log.roll()
    append_some(log, 2)
    sync(log, resume_point=True)
    log.delete_before(3, 3)
    log.advance_start()
    sync(log)
    assert log.retire_segments() is not None
    before = dict(log.producers.entries)
    assert list(before) == [7]
    log.truncate_to(3)
    assert log.producers.entries == before
    sync(log)
    log.close(clean=False)
    assert open_log(tmp_path).producers.entries == before


def test_a_sync_round_that_a_truncation_overtook_says_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 10)
    targets = log.sync_targets()
    assert targets is not None
    log.truncate_to(5)
    append_some(log, 20)
    log.mark_synced(targets)
    assert log.durable_offset == 0
    sync(log)
    assert log.durable_offset == 25


def test_resume_points_beyond_the_cut_are_gone_before_the_cut(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs)
    append_some(log, 30)
    sync(log, resume_point=True)
    assert files(tmp_path, ".resume") == [f"{30:020d}.resume"]
    fs.calls.clear()
    log.truncate_to(11)
    assert fs.calls.index("fsync_directory") < fs.calls.index("truncate")
    assert files(tmp_path, ".resume") == []
    append_some(log, 30)
    assert open_log(tmp_path).log_end_offset == 41


def test_reads_beyond_a_truncation_are_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 10)
    assert len(read_batches(log, 0, end_offset=9)) == 9
    log.truncate_to(4)
    with pytest.raises(OffsetOutOfRange):
        log.read(5, 100, 10, at_least_one_batch=True)
    assert [b.header.base_offset for b in read_batches(log, 0, end_offset=9)] == [0, 1, 2, 3]


def test_a_batch_that_is_cut_off_before_it_is_read_is_an_error(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 5)
    segment = log.segments[0]
    read = segment.batch_reader(list(segment.walk(0, segment.size))[-1])
    log.truncate_to(2)
    with pytest.raises(LogDamaged):
        read()
