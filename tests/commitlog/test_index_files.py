"""The index files, byte for byte as Kafka writes them."""

import struct
from pathlib import Path

import pytest

from libs.commitlog.files.page_cache import NonblockingLookup, NotInPageCache
from libs.commitlog.model.config import LogConfig
from libs.commitlog.segments import segment_indexes
from libs.commitlog.segments.index import INTERVAL_BYTES_MAX
from tests.commitlog.harness import append, append_some, batch_at, open_log, sync

CONFIG = LogConfig(segment_bytes=100_000, segment_index_bytes=1000, index_interval_bytes=200)


def test_the_active_indexes_are_preallocated_to_whole_entries(tmp_path: Path) -> None:
    open_log(tmp_path, config=CONFIG)
    assert (tmp_path / f"{0:020d}.index").stat().st_size == 1000
    assert (tmp_path / f"{0:020d}.timeindex").stat().st_size == 996


def test_an_entry_comes_with_the_first_batch_after_the_interval_and_never_with_the_first_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=CONFIG)
    batches = [batch_at(10 * i, count=10, timestamp=1000 + 100 * i) for i in range(7)]
    sizes = [len(batch) for batch in batches]
    assert all(200 < size < 400 for size in sizes)
    append(log, *batches)
    log.roll()
    index = (tmp_path / f"{0:020d}.index").read_bytes()
    # Each batch is longer than the interval, so each one but the first is indexed: (its last offset, its position).
    assert index == b"".join(struct.pack(">ii", 10 * i + 9, sum(sizes[:i])) for i in range(1, 7))
    times = (tmp_path / f"{0:020d}.timeindex").read_bytes()
    assert times == b"".join(struct.pack(">qi", 1000 + 100 * i + 9, 10 * i + 9) for i in range(1, 7))


def test_a_time_entry_comes_only_with_a_greater_timestamp_and_a_last_one_on_roll(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=CONFIG)
    stamps = [500, 500, 900, 300, 300, 1200]
    for i, stamp in enumerate(stamps):
        append(log, batch_at(i, size=10 if i == 5 else 150, timestamp=stamp))
    log.roll()
    index = (tmp_path / f"{0:020d}.index").read_bytes()
    assert [relative for relative, _ in struct.iter_unpack(">ii", index)] == [1, 2, 3, 4, 5]
    times = (tmp_path / f"{0:020d}.timeindex").read_bytes()
    assert list(struct.iter_unpack(">qi", times)) == [(500, 0), (900, 2), (1200, 5)]


def test_the_greatest_timestamp_of_an_unindexed_tail_is_kept_by_the_roll(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=CONFIG)
    append(log, batch_at(0, timestamp=777))
    log.roll()
    assert (tmp_path / f"{0:020d}.timeindex").read_bytes() == struct.pack(">qi", 777, 0)
    assert (tmp_path / f"{0:020d}.index").read_bytes() == b""


def test_offsets_in_an_index_are_relative_to_the_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=CONFIG, log_start_offset=5_000_000_000)
    append(log, *(batch_at(5_000_000_000 + i, size=250) for i in range(2)))
    log.roll()
    index = (tmp_path / f"{5_000_000_000:020d}.index").read_bytes()
    assert index == struct.pack(">ii", 1, len(batch_at(5_000_000_000, size=250)))


def test_a_full_index_rolls_the_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=LogConfig(segment_index_bytes=48, index_interval_bytes=1))
    append_some(log, 20)
    assert [s.base_offset for s in log.segments] == [0, 7, 14]
    for segment in log.segments[:-1]:
        assert len((tmp_path / f"{segment.base_offset:020d}.index").read_bytes()) <= 48


def test_a_full_index_rolls_within_a_group_too(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=LogConfig(segment_index_bytes=48, index_interval_bytes=1))
    append_some(log, 2, together=17)
    assert log.log_end_offset == 34
    assert [s.base_offset for s in log.segments] == [0, 7, 14, 21, 28]


def test_relative_offsets_beyond_31_bits_roll(tmp_path: Path) -> None:
    """KAFKA-6264, KAFKA-5413."""
    log = open_log(tmp_path, config=CONFIG)
    append(log, batch_at(0))
    append(log, batch_at(2**31 - 1))
    assert len(log.segments) == 1
    append(log, batch_at(2**31))
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]


def test_a_segment_rolls_by_the_age_of_its_first_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=LogConfig(segment_ms=900))
    append(log, batch_at(0, timestamp=5000), batch_at(1, timestamp=5900))
    assert len(log.segments) == 1
    append(log, batch_at(2, timestamp=5901))
    assert len(log.segments) == 2


def test_batches_without_a_timestamp_do_not_roll_by_age(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=LogConfig(segment_ms=1000))
    append(log, batch_at(0, timestamp=-1))
    append(log, batch_at(1, timestamp=9_999_999))
    assert len(log.segments) == 1


def test_the_epoch_file_and_the_snapshot_are_kafkas(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=CONFIG)
    append(
        log, batch_at(0, epoch=3), batch_at(1, epoch=3), batch_at(2, epoch=7, producer_id=9, producer_epoch=1, base_sequence=4)
    )
    log.roll()
    sync(log)
    assert (tmp_path / "leader-epoch-checkpoint").read_text(encoding="utf-8") == "0\n2\n3 0\n7 2\n"
    snapshot = (tmp_path / f"{3:020d}.snapshot").read_bytes()
    assert struct.unpack(">hIi", snapshot[:10])[::2] == (1, 1)
    assert struct.unpack(">qhiqiqiq", snapshot[10:]) == (9, 1, 4, 2, 0, 1000, -1, -1)


def test_an_index_whose_trim_a_power_cut_undid_after_a_clean_stop_is_trimmed_by_the_roll(tmp_path: Path) -> None:
    """Its new size was never synced: the zeros behind its entries would be entries after the next crash."""
    log = open_log(tmp_path, config=CONFIG)
    append(log, *(batch_at(i, size=250) for i in range(3)))
    sync(log)
    log.close(clean=True)
    for name, room in ((f"{0:020d}.index", 1000), (f"{0:020d}.timeindex", 996)):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content.ljust(room, b"\0"))
    open_log(tmp_path, config=CONFIG, clean=True).roll()
    assert (tmp_path / f"{0:020d}.index").stat().st_size == 2 * 8
    assert (tmp_path / f"{0:020d}.timeindex").stat().st_size == 12


def test_entries_are_never_so_far_apart_that_a_walk_between_them_takes_long(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=LogConfig(index_interval_bytes=1 << 30))
    size = 10_000
    append_some(log, 3 * INTERVAL_BYTES_MAX // size, size=size)
    log.roll()
    positions = [position for _, position in struct.iter_unpack(">ii", (tmp_path / f"{0:020d}.index").read_bytes())]
    assert len(positions) == 2
    assert max(positions[0], positions[1] - positions[0]) <= INTERVAL_BYTES_MAX + size + 200


@pytest.mark.parametrize("is_sealed", [True, False])
def test_an_index_with_few_entries_is_made_again_off_the_loop_by_the_first_read_that_jumps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_sealed: bool
) -> None:
    """Kafka, or a former version, obeyed `index.interval.bytes`, however large."""
    config = LogConfig(index_interval_bytes=1 << 30)
    monkeypatch.setattr(segment_indexes, "INTERVAL_BYTES_MAX", 1 << 30)
    log = open_log(tmp_path, config=config)
    append_some(log, 300)
    if is_sealed:
        log.roll()
    sync(log, resume_point=True)
    log.close(clean=True)
    monkeypatch.setattr(segment_indexes, "INTERVAL_BYTES_MAX", 600)
    monkeypatch.setattr(segment_indexes, "HEADERS_AT_ONCE", 20)
    log = open_log(tmp_path, config=config)
    lookup = NonblockingLookup()
    reads = 0
    while True:
        try:
            with lookup:
                piece = log.read(250, 1, 300, at_least_one_batch=True)
            break
        except NotInPageCache as miss:
            lookup.take(miss.read, miss.read())
            reads += 1
    assert piece is not None
    assert piece.first_offset == 250
    assert reads > 0
    assert (tmp_path / f"{0:020d}.index").read_bytes().strip(b"\0"), "it has entries now"
    append_some(log, 1)
    with NonblockingLookup():
        later = log.read(251, 1, 300, at_least_one_batch=True)
    assert later is not None
    assert later.first_offset == 251
