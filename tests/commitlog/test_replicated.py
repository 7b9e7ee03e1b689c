"""Batches that come from a leader, and logs that begin anew where their leader's does."""

import os
import struct
from pathlib import Path

import pytest

from libs.commitlog.partition_log.log import Log
from libs.commitlog.partition_log.replicated_batches import (
    FarAhead,
    NotReplicable,
    Replicated,
    StartsBefore,
    read_replicated,
    record_producers,
)
from libs.wire.record_batches.markers import Marker, build_marker
from tests.commitlog.harness import FaultyFileSystem, QuickFileSystem, all_bytes, append, append_some, batch_at, open_log, sync

ENOUGH = 1 << 30


def read(content: bytes, *, end: int = 0, epochs: tuple[int, int] = (-1, 9), position: int = 0) -> Replicated:
    return read_replicated(memoryview(content), position, end, epochs, bytes_max=ENOUGH, batches_max=ENOUGH)


def replicate(log: Log, content: bytes) -> None:
    """As the storage service does it."""
    view = memoryview(content)
    replicated = read(content, end=log.log_end_offset, epochs=(log.epochs.latest, 9))
    record_producers(log.producers, view, replicated.with_producer)
    log.append([view[: replicated.size]], replicated.batches)


def test_whole_batches_are_found_and_a_last_one_that_was_cut_short_is_left_out() -> None:
    first, second = batch_at(0, count=3), batch_at(3, count=2)
    for cut in range(1, len(second)):
        replicated = read(bytes(first + second[:cut]))
        assert [batch.base_offset for batch in replicated.batches] == [0]
        assert replicated.size == len(first)
    assert [batch.last_offset for batch in read(bytes(first + second)).batches] == [2, 4]


def test_only_so_much_is_read_at_once() -> None:
    content = b"".join(bytes(batch_at(offset)) for offset in range(10))
    size = len(batch_at(0))
    replicated = read_replicated(memoryview(content), 0, 0, (-1, 9), bytes_max=3 * size, batches_max=ENOUGH)
    assert [batch.base_offset for batch in replicated.batches] == [0, 1, 2]
    replicated = read_replicated(memoryview(content), replicated.size, 3, (-1, 9), bytes_max=ENOUGH, batches_max=2)
    assert [batch.base_offset for batch in replicated.batches] == [3, 4]


def test_gaps_are_taken_upwards_only() -> None:
    """Compaction leaves them."""
    replicated = read(bytes(batch_at(4) + batch_at(9)), end=2)
    assert [batch.base_offset for batch in replicated.batches] == [4, 9]
    with pytest.raises(NotReplicable):
        read(bytes(batch_at(4, count=3) + batch_at(6)), end=2)
    with pytest.raises(StartsBefore) as begins:
        read(bytes(batch_at(4, count=3)), end=6)
    assert (begins.value.base_offset, begins.value.last_offset) == (4, 6)


def test_a_flipped_bit_anywhere_behind_the_crc_is_noticed() -> None:
    batch = batch_at(0, count=2)
    for position in range(21, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 0x10
        with pytest.raises(NotReplicable):
            read(bytes(damaged))


def test_epochs_neither_fall_nor_pass_the_leaders() -> None:
    assert [batch.leader_epoch for batch in read(bytes(batch_at(0, epoch=3) + batch_at(1, epoch=5)), epochs=(3, 5)).batches] == [
        3,
        5,
    ]
    for content, epochs in (
        (batch_at(0, epoch=3) + batch_at(1, epoch=2), (0, 9)),
        (batch_at(0, epoch=3), (4, 9)),
        (batch_at(0, epoch=6), (0, 5)),
    ):
        with pytest.raises(NotReplicable):
            read(bytes(content), epochs=epochs)


def test_bytes_that_are_no_batch_are_refused() -> None:
    batch = batch_at(0)
    for position, change in ((16, b"\1"), (8, struct.pack(">i", 10)), (23, struct.pack(">i", -1))):
        content = bytearray(batch)
        content[position : position + len(change)] = change
        with pytest.raises(NotReplicable):
            read(bytes(content))


def test_a_producers_sequences_are_taken_as_they_come(tmp_path: Path) -> None:
    """KAFKA-6003: the leader may have forgotten the producer before, or the log begins in the middle of what it sent."""
    log = open_log(tmp_path)
    replicate(log, bytes(batch_at(0, producer_id=7, producer_epoch=2, base_sequence=40)))
    replicate(log, bytes(batch_at(1, producer_id=7, producer_epoch=1, base_sequence=90)))
    assert log.producers.entries[7].batches[-1].last_sequence == 90


def test_transactions_end_on_a_follower_as_they_do_in_a_recovery(tmp_path: Path) -> None:
    log = open_log(tmp_path / "follower")
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    content = bytes(batch_at(0, transactional=True, **fields))
    content += bytes(
        build_marker(
            Marker(aborts=True, coordinator_epoch=3),
            producer_id=7,
            producer_epoch=0,
            timestamp_ms=1000,
            base_offset=1,
            leader_epoch=0,
        )
    )
    replicate(log, content)
    sync(log)
    assert log.last_stable_offset(2) == 2
    recovered = open_log(tmp_path / "follower")
    assert log.producers.entries == recovered.producers.entries
    assert log.aborted.counts == recovered.aborted.counts == {0: 1}


def test_a_failed_write_reverts_producer_state(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    log = open_log(tmp_path, fs)
    fs.fail("pwritev", after=0)
    with pytest.raises(Exception, match="No space"):
        replicate(log, bytes(batch_at(0, producer_id=7, producer_epoch=2, base_sequence=40)))
    assert log.producers.entries == {}
    fs.heal()
    replicate(log, bytes(batch_at(0, producer_id=7, producer_epoch=2, base_sequence=40)))
    assert log.log_end_offset == 1


# --- beginning anew


@pytest.mark.parametrize(("base", "start"), [(100, 100), (95, 100), (3, 3), (0, 0)])
def test_a_log_begins_anew_and_opens_there(tmp_path: Path, base: int, start: int) -> None:
    log = open_log(tmp_path)
    append_some(log, 40, epoch=2)
    sync(log, resume_point=True)
    log.next_start_offset = start
    log.begin_anew(base, start)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (start, base, 0)
    assert log.epochs.entries() == []
    assert log.producers.entries == {}
    append(log, batch_at(base, count=10, epoch=3))
    sync(log, resume_point=True)
    opened = open_log(tmp_path, log_start_offset=start, committed_offset=start)
    assert (opened.log_start_offset, opened.log_end_offset) == (start, base + 10)
    assert opened.epochs.entries() == [(3, start)]
    assert all_bytes(opened)


class Killed(BaseException):
    pass


class MortalFileSystem(QuickFileSystem):
    """A file system whose process is killed at the call after so many more that change something."""

    left = 1 << 30

    def _change(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def unlink(self, path: str) -> None:
        self._change()
        super().unlink(path)

    def open_append(self, path: str, *, create: bool) -> int:
        self._change()
        return super().open_append(path, create=create)

    def fsync_directory(self, path: str) -> None:
        self._change()
        super().fsync_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._change()
        super().rename(source, target)


def test_a_log_that_is_killed_while_it_begins_anew_opens_at_its_new_start(tmp_path: Path) -> None:
    killed = 0
    for after in range(60):
        path, fs = tmp_path / str(after), MortalFileSystem()
        os.mkdir(path)
        log = open_log(path, fs)
        append_some(log, 40)
        sync(log, resume_point=True)
        fs.left = after
        try:
            log.begin_anew(100, 100)
        except Killed:
            killed += 1
        # The caller had put on disk the new start, and a high watermark no later than the old one.
        opened = open_log(path, log_start_offset=100, committed_offset=0)
        assert (opened.log_start_offset, opened.log_end_offset) == (100, 100)
        append(opened, batch_at(100))
        if fs.left >= 0:
            break
    assert killed > 5


# --- gaps that no segment spans


def test_a_batch_too_far_away_is_reported() -> None:
    far = 1 << 40
    with pytest.raises(FarAhead) as ahead:
        read(bytes(batch_at(far)), end=5)
    assert ahead.value.base_offset == far
    assert [batch.base_offset for batch in read(bytes(batch_at(5) + batch_at(far)), end=5).batches] == [5]


@pytest.mark.parametrize("batches", [0, 3, 40])
def test_a_log_skips_a_gap_and_opens_with_it(tmp_path: Path, batches: int) -> None:
    """KAFKA-5413: relative offsets in a segment have 32 bits."""
    log = open_log(tmp_path)
    append_some(log, batches)
    far = 1 << 40
    log.skip_to(far)
    append(log, batch_at(far), batch_at(far + 1))
    before = all_bytes(log)
    assert (log.log_start_offset, log.log_end_offset) == (0, far + 2)
    opened = open_log(tmp_path)
    assert all_bytes(opened) == before
    assert (opened.log_start_offset, opened.log_end_offset) == (0, far + 2)
    sync(opened, resume_point=True)
    assert open_log(tmp_path).log_end_offset == far + 2
