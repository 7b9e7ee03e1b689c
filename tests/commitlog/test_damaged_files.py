"""Any file of a log directory, damaged in any way: what was synced is served as it was, or it is said what is wrong and where."""

import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from libs.commitlog.checkpoints.offset_checkpoint import Entry, format_entries, parse_entries
from libs.commitlog.inspection.directory import verify
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.model.errors import DirectoryDamaged, DirectoryOwnerMismatch, LogDamaged, OffsetOutOfRange
from libs.commitlog.partition_log.directory import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, LogDirectory
from libs.commitlog.partition_log.log import Log
from libs.wire.record_batches.batches import BatchError, BatchView, iter_batches
from tests.commitlog.harness import SMALL, QuickFileSystem, append_some, content, open_log, sync

ID = bytes(range(16))
STOPS = ("clean", "crash")
PARTITION = "t-0"
FLIP_STEP = 17
BODY = 17  # the start of the part of a batch that the CRC covers, after offset, length, leader epoch and magic
Damage = Callable[[Path], None]


@dataclass
class Built:
    """A log directory with one partition, and every batch that was synced in it."""

    path: Path
    batches: list[bytes]
    recovery_point: int


@pytest.fixture(scope="module", params=STOPS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    path = tmp_path_factory.mktemp(request.param) / "logs"
    fs = QuickFileSystem()
    directory = LogDirectory.open(str(path), fs, new_id=ID, node_id=1)
    partition = Path(directory.create_partition("t", 0, ID))
    log = open_log(partition, fs)
    for epoch in range(3):
        append_some(log, 7, producer_id=epoch, producer_epoch=0, base_sequence=0, epoch=epoch)
        sync(log)
    sync(log, resume_point=True)
    append_some(log, 9, together=2, epoch=3)
    sync(log)
    directory.write_checkpoint(RECOVERY_POINTS, {("t", 0): Entry(log.recovery_point)})
    directory.write_checkpoint(HIGH_WATERMARKS, {("t", 0): Entry(log.log_end_offset)})
    directory.write_checkpoint(LOG_START_OFFSETS, {("t", 0): Entry(0)})
    recovery_point = log.recovery_point
    if request.param == "clean":
        log.close(clean=True)
        directory.mark_clean()
        recovery_point = log.log_end_offset
    batches = [bytes(batch.view) for batch in read(log)]
    copy = path.parent / "built"
    shutil.copytree(path, copy)
    directory.close()
    assert len(log.segments) > 3
    return Built(copy, batches, recovery_point)


def read(log: Log) -> list[BatchView]:
    """The batches that a consumer gets which starts at the beginning and never gives up. Raises LogDamaged."""
    result: list[BatchView] = []
    offset = log.log_start_offset
    while (piece := log.read(offset, 1 << 20, log.log_end_offset, at_least_one_batch=True)) is not None:
        batches = list(iter_batches(content(piece)))
        assert batches, f"a read at {offset} brought nothing"
        result += batches
        after = batches[-1].header.last_offset + 1
        assert after > offset, f"a consumer at {offset} would read for ever"
        offset = after
    return result


def files_of(built: Built) -> list[str]:
    return sorted(str(file.relative_to(built.path)) for file in built.path.rglob("*") if file.is_file())


def is_log(name: str) -> bool:
    return name.endswith(".log")


class Judge:
    """A judge that damages copies of a directory, opens them as a storage node does, and checks the outcome."""

    def __init__(self, built: Built, scratch: Path, caplog: pytest.LogCaptureFixture) -> None:
        self.built, self._scratch, self._caplog = built, scratch, caplog
        self.outcomes: dict[str, int] = {}

    def try_(self, name: str, damage: Damage, what: str) -> None:
        path = self._scratch / "copy"
        shutil.copytree(self.built.path, path)
        try:
            damage(path / name)
            self._caplog.clear()
            outcome = self._outcome(path, name, f"{name}: {what}")
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        finally:
            shutil.rmtree(path)

    def _outcome(self, path: Path, name: str, case: str) -> str:
        findings = Findings()
        verify(QuickFileSystem(), str(path), findings, records=False)  # before the log repairs anything
        try:
            read = self._read_as_a_node_does(path)
        except (LogDamaged, DirectoryDamaged, DirectoryOwnerMismatch) as error:
            damage = error
        except OSError:  # which the storage node logs together with the path
            assert (path / name).is_dir(), case
            return "refused"
        except (BatchError, OffsetOutOfRange):  # offset and length stand outside of a batch's CRC, as in Kafka
            assert is_log(name), case
            assert findings.problems, f"{case}: the inspector finds nothing"
            return "recognised by the consumer"
        else:
            return self._judge(path, name, case, read, findings)
        assert str(path) in str(damage), f"{case}: it is not said where: {damage}"
        return "refused"

    def _judge(self, path: Path, name: str, case: str, read: list[bytes] | None, findings: Findings) -> str:
        if read is None:
            assert name.endswith("partition.metadata"), f"{case}: the partition is not seen"
            assert (path / PARTITION / f"{0:020d}.log").exists()
            return "not taken for a partition"
        if read == self.built.batches:
            return "served as before"
        assert is_log(name), f"{case}: {len(read)} batches of {len(self.built.batches)} are left"
        assert findings.problems, f"{case}: the inspector finds nothing"
        bodies = {batch[BODY:] for batch in self.built.batches}
        changed = [raw_batch for raw_batch in read if raw_batch not in self.built.batches]
        if not changed:
            ends = BatchView(memoryview(read[-1])).header.last_offset + 1 if read else 0
            assert ends >= self.built.recovery_point, f"{case}: lost from {ends} on, before {self.built.recovery_point}"
            assert name in self._caplog.text, f"{case}: the cut is not logged: {self._caplog.text}"
            return "cut after the recovery point"
        for raw_batch in changed:
            whole = BatchView(memoryview(raw_batch)).crc_matches
            assert not whole or raw_batch[BODY:] in bodies, f"{case}: other bytes with a good CRC"
        return "recognised by the consumer"

    def _read_as_a_node_does(self, path: Path) -> list[bytes] | None:
        directory = LogDirectory.open(str(path), QuickFileSystem(), new_id=ID, node_id=1)
        try:
            if not (partitions := directory.list_partitions()):
                return None
            key = ("t", 0)
            log = open_log(
                Path(partitions[0].path),
                config=SMALL,
                clean=directory.was_clean,
                recovery_point=directory.read_checkpoint(RECOVERY_POINTS).get(key, Entry(0)).offset,
                log_start_offset=directory.read_checkpoint(LOG_START_OFFSETS).get(key, Entry(0)).offset,
            )
            return [bytes(batch.view) for batch in read(log)]
        finally:
            directory.close()


@pytest.fixture
def judge(built: Built, memory_path: Path, caplog: pytest.LogCaptureFixture) -> Judge:
    caplog.set_level(logging.WARNING)
    return Judge(built, memory_path, caplog)


def flip(position: int) -> Damage:
    def damage(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[position] ^= 1 << position % 8
        file.write_bytes(data)

    return damage


def cut(size: int) -> Damage:
    return lambda file: os.truncate(file, size)


def add(tail: bytes) -> Damage:
    def damage(file: Path) -> None:
        with open(file, "ab") as opened:
            opened.write(tail)

    return damage


def replace_by_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def test_a_flipped_bit_anywhere(judge: Judge, built: Built) -> None:
    for name in files_of(built):
        size = (built.path / name).stat().st_size
        for position in range(0, size, FLIP_STEP if is_log(name) else max(1, size // 12)):
            judge.try_(name, flip(position), f"bit {position % 8} of byte {position}")
    assert {"served as before", "refused", "recognised by the consumer"} <= judge.outcomes.keys()


def test_a_truncated_file(judge: Judge, built: Built) -> None:
    for name in files_of(built):
        size = (built.path / name).stat().st_size
        for length in sorted({0, 1, 7, 8, 11, 12, 60, 61, 62, size // 4, size // 2, size - 62, size - 12, size - 8, size - 1}):
            if 0 <= length < size:
                judge.try_(name, cut(length), f"cut to {length} of {size} bytes")


@pytest.mark.parametrize(
    "tail", [bytes(1), bytes(8), bytes(12), bytes(61), bytes(5000), b"\xff" * 24, b"garbage at the end" * 40]
)
def test_a_file_with_something_behind_its_end(judge: Judge, built: Built, tail: bytes) -> None:
    for name in files_of(built):
        judge.try_(name, add(tail), f"{len(tail)} bytes {tail[:4]!r} added")


def test_a_batch_of_the_log_itself_behind_its_end(judge: Judge, built: Built) -> None:
    """The effect of mixed-up blocks: a batch that is sound, but in the wrong place."""
    for name in filter(is_log, files_of(built)):
        judge.try_(name, add(built.batches[0]), "its first batch comes again")


def test_a_missing_file(judge: Judge, built: Built) -> None:
    for name in files_of(built):
        judge.try_(name, Path.unlink, "gone")


def test_a_directory_where_a_file_should_be(judge: Judge, built: Built) -> None:
    for name in files_of(built):
        judge.try_(name, replace_by_directory, "a directory")


def test_stray_and_foreign_files(judge: Judge, built: Built) -> None:
    strangers = ("README", "12.log", "x.log", "00000000000000000000.log.bak", ".DS_Store", "core", "0" * 20, "lost+found", "a-b")
    for name in strangers:
        for where in ("", f"{PARTITION}/"):
            judge.try_(where + name, lambda file: file.write_bytes(b"?" * 100) and None, "a stranger")
            judge.try_(where + name, Path.mkdir, "a strange directory")


def test_a_range_of_partitions_that_have_no_offset_is_refused_before_it_takes_memory() -> None:
    content = format_entries({("t", 0): Entry(5, ID)})
    for ranges in (b"0-4999999", b"9-0,1-4999999"):
        with pytest.raises(DirectoryDamaged, match="have no offset"):
            parse_entries(content.replace(b":t:0 ", b":t:" + ranges + b" "), "a checkpoint")
