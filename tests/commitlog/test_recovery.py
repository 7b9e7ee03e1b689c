"""Reopening: after a clean stop nothing is read; after a crash what was whole is found, and nothing else."""

import os
import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.errors import LogDamaged
from libs.commitlog.opening import recovery
from libs.commitlog.partition_log.log import Log
from tests.commitlog.harness import SMALL, all_bytes, append, append_some, batch_at, files, open_log, sync


def index_bytes(path: Path, log: Log) -> list[tuple[bytes, bytes]]:
    """The entries of the indexes, whether they are trimmed or not."""
    return [
        (
            (path / f"{s.base_offset:020d}.index").read_bytes()[: s.offset_index.count * 8],
            (path / f"{s.base_offset:020d}.timeindex").read_bytes()[: s.time_index.count * 12],
        )
        for s in log.segments
    ]


def test_a_clean_stop_is_reopened_without_reading(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 50, producer_id=3, producer_epoch=0, base_sequence=0)
    expected, producers, epochs = all_bytes(log), log.producers.entries, log.epochs.entries()
    log.close(clean=True)
    again = open_log(tmp_path)
    assert again.scanned_bytes == 0
    assert all_bytes(again) == expected
    assert again.producers.entries == producers
    assert again.epochs.entries() == epochs
    assert again.durable_offset == again.log_end_offset == 50


def test_a_crash_loses_nothing_that_the_kernel_holds(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 50, together=3)
    expected = all_bytes(log)
    again = open_log(tmp_path)
    assert all_bytes(again) == expected
    assert again.log_end_offset == 150
    assert again.durable_offset == 0


def test_recovery_rebuilds_the_same_indexes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 70)
    expected = index_bytes(tmp_path, log)
    for path in [*tmp_path.glob("*.index"), *tmp_path.glob("*.timeindex")]:
        path.write_bytes(b"\xff" * 24)
    assert index_bytes(tmp_path, open_log(tmp_path)) == expected


def test_recovery_from_a_resume_point_ends_where_recovery_from_the_start_does(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 31, producer_id=3, producer_epoch=0, base_sequence=0)
    sync(log, resume_point=True)
    append_some(log, 31, producer_id=4, producer_epoch=0, base_sequence=0, epoch=2)
    whole = tmp_path.parent / "whole"
    shutil.copytree(tmp_path, whole)
    for path in whole.glob("*.resume"):
        path.unlink()
    resumed, read_all = open_log(tmp_path), open_log(whole)
    assert 0 < resumed.scanned_bytes < read_all.scanned_bytes
    assert all_bytes(resumed) == all_bytes(read_all)
    assert resumed.producers.entries == read_all.producers.entries
    assert resumed.epochs.entries() == read_all.epochs.entries() == [(0, 0), (2, 31)]
    assert index_bytes(tmp_path, resumed) == index_bytes(whole, read_all)
    assert [s.max_timestamp for s in resumed.segments] == [s.max_timestamp for s in read_all.segments]


def test_all_five_batches_of_a_producer_survive_a_resume_point(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for i in range(8):
        append(log, batch_at(i, producer_id=3, producer_epoch=0, base_sequence=i))
    sync(log, resume_point=True)
    assert [b.last_sequence for b in open_log(tmp_path).producers.entries[3].batches] == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("how", ["crash", "crash of a log of Kafka's", "truncation"])
def test_of_made_up_producers_a_replay_knows_a_bounded_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A client may make up an id for each batch. The longest silent are forgotten, as after an append."""
    monkeypatch.setattr(recovery, "IDS_AT_ONCE", 20)
    config = LogConfig(producer_ids_max=50)
    log = open_log(tmp_path, config=config)
    append_some(log, 1, producer_id=9999, producer_epoch=0, base_sequence=0, transactional=True)
    for number in range(300):
        append_some(log, 1, producer_id=number, producer_epoch=0, base_sequence=0)
        append_some(log, 1, producer_id=7, producer_epoch=0, base_sequence=number)
    expected = dict(log.producers.entries)
    sizes: list[tuple[int, int]] = []
    add = recovery.ProducerReplay.add

    def noted(self: recovery.ProducerReplay, producer_id: int, fields: tuple[int, ...]) -> None:
        add(self, producer_id, fields)
        sizes.append((len(self._latest), self._producers.entries.count))

    monkeypatch.setattr(recovery.ProducerReplay, "add", noted)
    if how == "truncation":
        append_some(log, 1)
        log.truncate_to(601)
        again = log
    else:
        if how.endswith("Kafka's"):
            for name in files(tmp_path, ".resume"):
                (tmp_path / name).unlink()
        again = open_log(tmp_path, config=config)
    assert len(sizes) == 600
    assert max(latest for latest, _ in sizes) <= 20
    assert max(count for _, count in sizes) <= 50 + 2 * 20
    assert again.producers.entries.count == 50
    assert again.producers.entries.keys() == expected.keys()
    assert 9999 in again.producers.entries, "its transaction is open"
    assert again.producers.entries[7].batches == expected[7].batches


def test_recovering_twice_equals_recovering_once(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 40)
    with open(log.active.file.path, "r+b") as file:
        file.truncate(log.active.size - 7)
    first = open_log(tmp_path)
    assert first.truncated_bytes > 0
    second = open_log(tmp_path)
    assert second.truncated_bytes == 0
    assert all_bytes(first) == all_bytes(second)
    assert index_bytes(tmp_path, first) == index_bytes(tmp_path, second)


def test_at_every_cut_of_the_tail_the_reopened_log_is_a_prefix(tmp_path: Path) -> None:
    source = tmp_path / "source"
    log = open_log(source)
    append_some(log, 12)
    tail = Path(log.active.file.path)
    whole = all_bytes(log)
    sealed = len(whole) - log.active.size
    ends = [log.active.base_offset, *(p.last_offset + 1 for p in log.active.walk(0, log.active.size))]
    positions = [0, *(p.position + p.size for p in log.active.walk(0, log.active.size))]
    for cut in range(log.active.size + 1):
        copy = tmp_path / "copy"
        shutil.copytree(source, copy)
        os.truncate(copy / tail.name, cut)
        again = open_log(copy)
        kept = max(i for i, position in enumerate(positions) if position <= cut)
        assert again.log_end_offset == ends[kept]
        assert all_bytes(again) == whole[: sealed + positions[kept]]
        append_some(again, 1)
        assert again.log_end_offset == ends[kept] + 1
        shutil.rmtree(copy)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_flipped_bit_after_the_resume_point_leaves_a_prefix(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("log")
    log = open_log(path)
    append_some(log, data.draw(st.integers(1, 30)))
    whole = all_bytes(log)
    victim = data.draw(st.sampled_from([s for s in log.segments if s.size]))
    position = data.draw(st.integers(0, victim.size - 1))
    # Neither the leader epoch (12-15) nor the upper offset bytes are covered by a CRC in Kafka's format.
    places = [p for p in victim.walk(0, victim.size) if p.position <= position < p.position + p.size]
    with open(victim.file.path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ (1 << data.draw(st.integers(0, 7)))]))
    again = open_log(path)
    if not 0 <= position - places[0].position < 16:
        assert whole.startswith(all_bytes(again))
        assert again.log_end_offset == places[0].base_offset


def test_a_gap_between_segments_is_the_lost_end_of_a_file(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 40)
    victim = log.segments[1]
    last = list(victim.walk(0, victim.size))[-1]
    os.truncate(victim.file.path, last.position)
    again = open_log(tmp_path)
    assert again.log_end_offset == last.base_offset
    kafkas = tmp_path / "kafkas"
    append_some(open_log(kafkas), 40)
    (kafkas / "gapless").unlink()
    victim = open_log(kafkas).segments[1]
    os.truncate(victim.file.path, list(victim.walk(0, victim.size))[-1].position)
    assert open_log(kafkas).log_end_offset == 40
    other = tmp_path / "other"
    log = open_log(other)
    append_some(log, 1)
    sync(log, resume_point=True)
    append_some(log, 40)
    victim = log.segments[1]
    os.truncate(victim.file.path, list(victim.walk(0, victim.size))[-1].position)
    again = open_log(other)
    assert again.log_end_offset == victim.next_offset - 1
    assert len(again.segments) == 2


def test_zeros_after_the_end_are_cut(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 3)
    expected = all_bytes(log)
    with open(log.active.file.path, "ab") as file:
        file.write(bytes(5000))
    again = open_log(tmp_path)
    assert again.truncated_bytes == 5000
    assert all_bytes(again) == expected


def test_damage_before_the_resume_point_is_reported_not_cut(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 3)
    sync(log, resume_point=True)
    size = log.active.size
    os.truncate(log.active.file.path, size - 1)
    with pytest.raises(LogDamaged):
        open_log(tmp_path)
    assert Path(log.active.file.path).stat().st_size == size - 1


def test_a_missing_synced_segment_is_reported(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 3)
    sync(log, resume_point=True)
    append_some(log, 30)
    Path(log.segments[0].file.path).unlink()
    with pytest.raises(LogDamaged):
        open_log(tmp_path)


def test_a_damaged_resume_point_is_passed_over(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 20)
    sync(log, resume_point=True)
    expected = all_bytes(log)
    for path in tmp_path.glob("*.resume"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    again = open_log(tmp_path)
    assert all_bytes(again) == expected
    assert again.durable_offset == 0


def test_a_damaged_epoch_file_is_read_again_from_the_batches(tmp_path: Path) -> None:
    """KAFKA-16541."""
    log = open_log(tmp_path)
    append_some(log, 20, epoch=1)
    append_some(log, 20, epoch=4)
    log.close(clean=True)
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"0\n7\n1 0\n")
    assert open_log(tmp_path).epochs.entries() == [(1, 0), (4, 20)]


def test_an_empty_active_segment_without_indexes_is_not_damage(tmp_path: Path) -> None:
    """KAFKA-13603."""
    log = open_log(tmp_path)
    append_some(log, 3)
    log.roll()
    sync(log)
    for suffix in (".index", ".timeindex"):
        (tmp_path / f"{3:020d}{suffix}").unlink()
    again = open_log(tmp_path)
    assert again.log_end_offset == 3
    append_some(again, 1)


def test_leftovers_and_orphan_indexes_are_swept_and_strangers_left_alone(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 2)
    for name in ("00000000000000000009.index", "x.tmp", "00000000000000000000.log.deleted", "README", "12.log"):
        (tmp_path / name).write_bytes(b"?")
    assert open_log(tmp_path).log_end_offset == 2
    left = {path.name for path in tmp_path.iterdir()}
    assert {"README", "12.log"} <= left
    assert not left & {"00000000000000000009.index", "x.tmp", "00000000000000000000.log.deleted"}


def test_snapshots_beyond_the_recovered_end_go(tmp_path: Path) -> None:
    """KAFKA-5829: a snapshot must not hold state beyond the log."""
    log = open_log(tmp_path)
    append_some(log, 5)
    log.close(clean=True)
    (tmp_path / f"{77:020d}.snapshot").write_bytes(b"?")
    open_log(tmp_path)
    assert files(tmp_path, ".snapshot") == [f"{5:020d}.snapshot"]


def test_a_directory_as_kafka_left_it_is_opened_from_its_snapshot(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for i in range(30):
        append(log, batch_at(i, producer_id=i % 3, producer_epoch=0, base_sequence=i // 3))
    log.close(clean=True)
    expected, last = all_bytes(log), {pid: e.batches[-1] for pid, e in log.producers.entries.items()}
    for path in tmp_path.glob("*.resume"):
        path.unlink()
    again = open_log(tmp_path, clean=True, recovery_point=30)
    assert 0 < again.scanned_bytes < len(expected)
    assert all_bytes(again) == expected
    assert {pid: e.batches[-1] for pid, e in again.producers.entries.items()} == last
    assert again.durable_offset == 30


def test_smaller_config_values_do_not_keep_a_log_from_opening(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=LogConfig(index_interval_bytes=1))
    append_some(log, 100)
    expected = all_bytes(log)
    tiny = LogConfig(segment_bytes=200, segment_index_bytes=24, index_interval_bytes=1)
    again = open_log(tmp_path, config=tiny)
    assert all_bytes(again) == expected
    append_some(again, 3)
    assert len(again.segments) > 1


def test_a_resume_point_is_left_every_64_mib_and_older_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.commitlog.partition_log.sync_ledger.RESUME_POINT_BYTES", 3000)
    log = open_log(tmp_path, config=LogConfig())
    for _ in range(100):
        append_some(log, 1)
        sync(log)
    assert len(files(tmp_path, ".resume")) == 2
    assert log._ledger.bytes_since_resume < 3000
    assert log.recovery_point > 50


def test_a_header_length_beyond_the_file_is_the_end(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_some(log, 2)
    with open(log.active.file.path, "ab") as file:
        file.write(struct.pack(">qi", 2, 0x7FFF_FFFF) + bytes(100))
    assert open_log(tmp_path).log_end_offset == 2


def test_small_files_recover_with_the_default_config_too(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=SMALL)
    append_some(log, 30)
    expected = all_bytes(log)
    assert all_bytes(open_log(tmp_path, config=LogConfig())) == expected
