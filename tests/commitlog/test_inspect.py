"""`python -m libs.commitlog`: what is wrong with a log is said with file and position; nothing is changed, nothing is thrown."""

import errno
import json
import os
import shutil
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from libs.commitlog import __main__ as tool
from libs.commitlog.checkpoints.offset_checkpoint import Entry, format_entries
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.inspection.directory import look, verify
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.inspection.indexes import parse_index
from libs.commitlog.model.config import LogConfig
from libs.commitlog.partition_log.directory import HIGH_WATERMARKS, LOG_START_OFFSETS, LogDirectory
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.index import OFFSET_ENTRY
from libs.wire.record_batches.compression import DECOMPRESSED_BYTES_MAX
from libs.wire.record_batches.records import Record, build_batch
from tests.commitlog.harness import QuickFileSystem, append, append_some, batch_at, open_log, sync

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=150, segment_index_bytes=2400)
TOPIC_ID = bytes(range(16))
BATCH_BYTES = len(batch_at(0, timestamp=1000))


def make_directory(path: Path) -> LogDirectory:
    return LogDirectory.open(str(path), QuickFileSystem(), new_id=bytes(range(16, 32)), node_id=1, cluster_id="c")


def fill(log: Log) -> None:
    """Five segments, two epochs, a producer."""
    for i in range(60):
        sequenced = {"producer_id": 7, "producer_epoch": 0, "base_sequence": i} if i >= 20 else {}
        append(log, batch_at(log.log_end_offset, timestamp=1000 + i, epoch=0 if i < 30 else 2, **sequenced))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with one partition, `t-0`, stopped cleanly. Not to be changed."""
    root = tmp_path_factory.mktemp("sound") / "logs"
    directory = make_directory(root)
    log = open_log(Path(directory.create_partition("t", 0, TOPIC_ID)), config=CONFIG)
    fill(log)
    assert len(log.segments) >= 4
    log.close(clean=True)
    directory.write_checkpoint(HIGH_WATERMARKS, {("t", 0): Entry(60)})
    directory.write_checkpoint(LOG_START_OFFSETS, {("t", 0): Entry(0)})
    directory.mark_clean()
    directory.close()
    return root


@pytest.fixture
def logs(sound: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return shutil.copytree(sound, tmp_path / "logs")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = tool.main([str(argument) for argument in arguments])
    return code, capsys.readouterr().out


def files_of(path: Path, suffix: str) -> list[Path]:
    return sorted((path / "t-0").glob(f"*{suffix}"))


def test_a_sound_directory_is_clean(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (sound, sound / "t-0"):
        for flags in ((), ("--records",)):
            code, out = run(capsys, "verify", *flags, path)
            assert code == 0, out
            assert "clean: 1 partition" in out
            assert "60 batches, offsets 0 to 60" in out


def test_inspect_shows_what_is_there(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, "inspect", sound)
    assert code == 0
    for words in (
        "stopped cleanly",
        "node.id 1",
        "t-0",
        "topic id AAECAwQFBgcICQoLDA0ODw",
        "offsets          0 to 60",
        "0 from 0, 2 from 30",
        "high watermark 60",
        "durable          to 60 for certain",
        "nothing is behind it",
        "00000000000000000000",
        "39",
    ):
        assert words in out
    assert all(len(line) <= 130 for line in out.splitlines())


def test_inspect_shows_batches_from_an_offset_on(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, "inspect", "--batches", "--from", "57", sound / "t-0")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["57", "58", "59"]
    assert "producer 7/0 sequence 59–59" in out
    code, out = run(capsys, "inspect", "--batches", "--json", sound / "t-0")
    assert [json.loads(line)["base_offset"] for line in out.splitlines()] == list(range(60))


def test_json_says_the_same(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, "verify", "--json", logs)
    report = json.loads(out)
    assert (code, report["problems"], report["findings"]) == (0, 0, [])
    (partition,) = report["partitions"]
    assert (partition["end_offset"], partition["resume_point"], partition["topic_id"]) == (60, 60, "AAECAwQFBgcICQoLDA0ODw")
    assert sum(segment["batches"] for segment in partition["segments"]) == 60
    assert partition["producers"][0]["last_sequence"] == 59
    flip(logs / "t-0" / f"{0:020d}.log", 70)
    code, out = run(capsys, "verify", "--json", logs)
    finding = json.loads(out)["findings"][0]
    assert (code, finding["severity"], finding["position"]) == (1, "problem", 0)


def test_questions_that_make_no_sense_are_refused(sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["verify", str(tmp_path / "missing")]) == 2
    assert tool.main(["inspect", str(tmp_path)]) == 2
    assert tool.main(["inspect", "--batches", str(sound)]) == 2
    assert tool.main(["verify", str(sound / "t-0" / "partition.metadata")]) == 2
    with pytest.raises(SystemExit) as ended:
        tool.main(["mend", str(sound)])
    assert ended.value.code == 2


# --- damage


def flip(path: Path, position: int, mask: int = 0xFF) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= mask
    path.write_bytes(content)


def put(path: Path, position: int, layout: str, *values: int) -> None:
    content = bytearray(path.read_bytes())
    struct.pack_into(layout, content, position, *values)
    path.write_bytes(content)


def extend(path: Path, tail: bytes) -> None:
    path.write_bytes(path.read_bytes() + tail)


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


FIRST = f"t-0/{0:020d}"
CASES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a record was hit": (
        lambda logs: flip(logs / f"{FIRST}.log", 70),
        f"{FIRST}.log at byte 0: the batch of offsets 0 to 0 does not match its CRC; it was synced",
    ),
    "a batch became another version": (lambda logs: flip(logs / f"{FIRST}.log", 16), "no batch begins here"),
    "a length is too large": (lambda logs: put(logs / f"{FIRST}.log", 8, ">i", 2**30), "a batch of 1073741836 bytes"),
    "a length is too small": (lambda logs: put(logs / f"{FIRST}.log", 8, ">i", 3), "a batch cannot have 15 bytes"),
    "an offset is wrong": (
        lambda logs: put(logs / f"{FIRST}.log", 0, ">q", 2),
        f"{FIRST}.log at byte 0: the batch of offsets 2 to 2 comes after a gap: offset 0 is next",
    ),
    "a leader epoch is wrong": (lambda logs: put(logs / f"{FIRST}.log", 12, ">i", 1), "leader epoch 0, its batch has 1"),
    "a tail is torn": (lambda logs: extend(files_of(logs, ".log")[-1], b"\0" * 70), "zeros to the end of the file"),
    "a tail is short": (lambda logs: extend(files_of(logs, ".log")[-1], b"abc"), "the next start cuts the log here"),
    "synced bytes are gone": (
        lambda logs: os.truncate(files_of(logs, ".log")[-1], 10),
        "were synced, 10 are there: the partition does",
    ),
    "a segment is gone": (lambda logs: files_of(logs, ".log")[1].unlink(), "are missing before this segment"),
    "an index is gone": (lambda logs: (logs / f"{FIRST}.index").unlink(), f"{FIRST}.index: is missing"),
    "an index is ragged": (lambda logs: extend(logs / f"{FIRST}.index", b"abc"), "not a whole number of entries of 8"),
    "an index entry names another offset": (
        lambda logs: put(logs / f"{FIRST}.index", 0, ">i", 1),
        f"{FIRST}.index at byte 0: entry 0 says that the batch at position ",
    ),
    "an index entry points between batches": (
        lambda logs: put(logs / f"{FIRST}.index", 12, ">i", 333),
        f"{FIRST}.index at byte 8: entry 1 points at position 333, where no batch begins",
    ),
    "an index points past the end": (
        lambda logs: extend(logs / f"{FIRST}.index", struct.pack(">ii", 999, 99_999)),
        "points at position 99999, where the log has no batch",
    ),
    "index entries are out of order": (
        lambda logs: put(logs / f"{FIRST}.index", 8, ">ii", 0, 1),
        "entry 1 (offset 0, position 1) is out of",
    ),
    "a timestamp is untrue": (
        lambda logs: put(logs / f"{FIRST}.timeindex", 0, ">q", 1),
        f"{FIRST}.timeindex at byte 0: entry 0 says 1 is the greatest timestamp up to offset ",
    ),
    "timestamps are out of order": (lambda logs: put(logs / f"{FIRST}.timeindex", 12, ">q", 5), "entry 1 (timestamp 5, offset "),
    "the last timestamp is missing": (
        lambda logs: os.truncate(logs / f"{FIRST}.timeindex", 12),
        f"{FIRST}.timeindex at byte 12: the greatest timestamp is ",
    ),
    "a snapshot was hit": (lambda logs: flip(files_of(logs, ".snapshot")[-1], 20), "not a sound producer snapshot"),
    "a resume point was hit": (lambda logs: flip(files_of(logs, ".resume")[-1], 20), "not a sound resume point"),
    "a snapshot is of a later log": (
        lambda logs: files_of(logs, ".snapshot")[-1].rename(logs / "t-0" / f"{99:020d}.snapshot"),
        f"t-0/{99:020d}.snapshot: is of offset 99, the log ends at 60",
    ),
    "epochs are out of order": (
        lambda logs: replace(logs / "t-0/leader-epoch-checkpoint", "2 30", "0 30"),
        "epochs are not in order",
    ),
    "an epoch starts elsewhere": (
        lambda logs: replace(logs / "t-0/leader-epoch-checkpoint", "2 30", "2 33"),
        "says that offset 30 is of leader epoch 0, its",
    ),
    "nobody knows whose it is": (lambda logs: (logs / "t-0/partition.metadata").unlink(), "t-0/partition.metadata: is missing"),
    "its identity is garbled": (
        lambda logs: replace(logs / "t-0/partition.metadata", "topic_id: ", "topic_id: ?"),
        "t-0/partition.metadata at byte 0",
    ),
    "the directory's identity is garbled": (
        lambda logs: replace(logs / "meta.properties", "node.id=1", "node.id=x"),
        "node.id 'x', not a number",
    ),
    "a checkpoint is garbled": (
        lambda logs: extend(logs / HIGH_WATERMARKS, b"t 1"),
        f"{HIGH_WATERMARKS}: is ignored by the next start",
    ),
    "a checkpoint is past the end": (
        lambda logs: (logs / HIGH_WATERMARKS).write_bytes(format_entries({("t", 0): Entry(61)})),
        "t-0: 61, but the log ends at 60",
    ),
    "a checkpoint has another digit": (
        lambda logs: replace(logs / HIGH_WATERMARKS, "t 0 60", "t 0 61"),
        f"{HIGH_WATERMARKS}: is ignored by the next start: its checksum says that it was changed",
    ),
    "the directory was retired": (
        lambda logs: (logs / ".retired").write_text("EIO on sync", encoding="utf-8"),
        "its disk was checked: EIO on sync",
    ),
    "a transaction index is garbled": (
        lambda logs: (logs / f"{FIRST}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 7, 1, 3, 4)),
        "should end with a marker in this segment",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_problems_are_said_in_words(case: str, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    do_damage, words = CASES[case]
    do_damage(logs)
    code, out = run(capsys, "verify", logs)
    assert code == 1
    assert words in out


def test_one_hit_is_one_problem(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next sound batch is found again, and is not blamed."""
    position = 600
    flip(logs / f"{FIRST}.log", position)
    _, out = run(capsys, "verify", logs)
    assert out.splitlines()[-1] == "1 problem", out
    put(logs / f"{FIRST}.log", 8, ">i", 2**30)
    _, out = run(capsys, "verify", logs)
    assert out.splitlines()[-1] == "2 problems"
    assert f"up to the next whole batch at {BATCH_BYTES} are unreadable" in out


def test_a_file_that_is_wrong_all_over_is_cut_short(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = logs / f"{FIRST}.log"
    path.write_bytes(b"".join(bytes([byte ^ (0x40 if i % BATCH_BYTES == 80 else 0)]) for i, byte in enumerate(path.read_bytes())))
    _, out = run(capsys, "verify", logs)
    assert out.count(f"{FIRST}.log at byte") == 10
    assert f"more in {FIRST}.log" in out


def test_every_byte_of_a_batch_counts(logs: Path) -> None:
    path = logs / f"{FIRST}.log"
    content = path.read_bytes()
    for position in range(3 * BATCH_BYTES):
        flip(path, position, 0x04)
        findings = Findings()
        verify(OsFileSystem(), str(logs), findings, records=False)
        assert findings.problems, f"byte {position}"
        path.write_bytes(content)


def test_no_damage_is_too_much(logs: Path) -> None:
    """Each file in turn is gone, empty, cut in half, zeros, noise, or a directory. Both commands report it and end."""
    noise = bytes(i * 37 % 256 for i in range(1000))
    for path in [path for path in logs.rglob("*") if path.is_file()]:
        content = path.read_bytes()
        for replacement in (
            None,
            b"",
            content[: len(content) // 2],
            bytes(len(content)),
            noise,
            b"0\n-1\n",
            b"0\n1\nx y z\n",
            "dir",
        ):
            path.unlink()
            if replacement == "dir":
                path.mkdir()
            elif isinstance(replacement, bytes):
                path.write_bytes(replacement)
            for partition in (logs, logs / "t-0"):
                verify(OsFileSystem(), str(partition), Findings(), records=True)
                look(OsFileSystem(), str(partition), Findings())
            assert tool.main(["inspect", str(logs)]) in (0, 1)
            if replacement == "dir":
                path.rmdir()
            elif replacement is None:
                path.write_bytes(b"")
        path.write_bytes(content)


class SickFiles(OsFileSystem):
    """A file system that cannot read files whose names end with `sick`."""

    def __init__(self, sick: str) -> None:
        super().__init__()
        self._sick = sick
        self._names: dict[int, str] = {}

    def open_read(self, path: str) -> int:
        fd = super().open_read(path)
        self._names[fd] = path
        return fd

    def pread(self, fd: int, length: int, position: int) -> bytes:
        if self._names[fd].endswith(self._sick):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().pread(fd, length, position)


@pytest.mark.parametrize("sick", [".log", ".index", ".timeindex", ".snapshot", ".resume", "metadata", "properties", "checkpoint"])
def test_a_disk_that_does_not_read_is_reported(sound: Path, sick: str) -> None:
    findings = Findings()
    verify(SickFiles(sick), str(sound), findings, records=False)
    assert any(
        each_finding.path.endswith(sick) and "Input/output error" in each_finding.message for each_finding in findings.entries
    )


# --- running logs


def test_nothing_is_changed_and_no_lock_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make_directory(tmp_path / "logs")
    log = open_log(Path(directory.create_partition("t", 0, TOPIC_ID)), config=CONFIG)
    fill(log)
    sync(log)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (tmp_path / "logs").rglob("*")}
    for command in ("inspect", "verify"):
        code, out = run(capsys, command, tmp_path / "logs")
        assert code == 0
        assert f"in use by process {os.getpid()}" in out
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (tmp_path / "logs").rglob("*")} == before
    code, out = run(capsys, "inspect", tmp_path / "logs" / "t-0")
    assert f"in use by process {os.getpid()}" in out
    assert "offsets          0 to 60" in out
    assert "59           59       5  1970-01-01 00:00:01.059Z" in out
    append_some(log, 10, epoch=2)
    log.close(clean=True)
    directory.close()
    assert run(capsys, "verify", tmp_path / "logs")[0] == 0


def test_a_batch_that_is_being_written_is_no_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make_directory(tmp_path / "logs")
    log = open_log(Path(directory.create_partition("t", 0, TOPIC_ID)), config=CONFIG)
    fill(log)
    extend(Path(log.active.file.path), bytes(batch_at(60))[:50])
    code, out = run(capsys, "verify", tmp_path / "logs")
    assert (code, "a batch is being written" in out) == (0, True)
    directory.close()
    code, out = run(capsys, "verify", tmp_path / "logs")
    assert (code, "50 bytes, too few for a batch" in out) == (1, True)


def test_a_log_may_grow_and_lose_its_start_while_it_is_read(tmp_path: Path) -> None:
    directory = make_directory(tmp_path / "logs")
    log = open_log(Path(directory.create_partition("t", 0, TOPIC_ID)), QuickFileSystem(), config=CONFIG)
    fill(log)
    done, grown, trimmed = threading.Event(), threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            while not done.is_set():
                append_some(log, 20, together=2, timestamp=2000 + log.log_end_offset, epoch=2)
                sync(log)
                grown.set()
                if len(log.segments) > 20:
                    log.delete_before(log.segments[10].base_offset, log.log_end_offset)
                    log.advance_start()
                    sync(log, resume_point=True)
                    retired = log.retire_segments()
                    if retired is not None:
                        for path in retired.rename(QuickFileSystem()):
                            os.unlink(path)
                        trimmed.set()
        except BaseException as failure:
            failures.append(failure)
            grown.set()
            trimmed.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        grown.wait()
        looks = 0
        while looks < 15 or not trimmed.is_set():
            looks += 1
            findings = Findings()
            verify(OsFileSystem(), str(tmp_path / "logs"), findings, records=False)
            assert [finding for finding in findings.entries if finding.severity == "problem"] == []
            assert look(OsFileSystem(), str(tmp_path / "logs"), findings).partitions[0].end_offset > 60
    finally:
        done.set()
        writer.join()
    assert failures == []
    assert log.log_start_offset > 0


def test_records_from_before_1970_agree_with_their_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, build_batch([Record(b"k", b"v", -7), Record(b"k", b"w", -5)]))
    sync(log, resume_point=True)
    findings = Findings()
    verify(OsFileSystem(), str(tmp_path / "t-0"), findings, records=True)
    assert [str(finding) for finding in findings.entries if "greatest timestamp" in str(finding)] == []


def test_a_batch_that_is_too_large_to_open_is_no_damage(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, build_batch([Record(b"k", bytes(DECOMPRESSED_BYTES_MAX + 1), 5)], codec=4))
    sync(log, resume_point=True)
    findings = Findings()
    verify(OsFileSystem(), str(tmp_path / "t-0"), findings, records=True)
    (finding,) = [finding for finding in findings.entries if finding.path.endswith(".log")]
    assert finding.severity == "note"
    assert finding.message.startswith("the batch of offsets 0 to 0 is too large to be opened (zstd: more than 134217728 bytes)")


def test_the_room_of_a_preallocated_index_is_not_taken_apart() -> None:
    """10 MiB for each index of each partition, and nearly all of it zeros: a look at it took 0.2 s of CPU."""

    class Counted:
        size, unpacked = OFFSET_ENTRY.size, 0

        def iter_unpack(self, content: bytes) -> Iterator[tuple[Any, ...]]:
            self.unpacked += len(content)
            return OFFSET_ENTRY.iter_unpack(content)

    content = b"".join(OFFSET_ENTRY.pack(offset, 256 * offset) for offset in range(1, 4))
    entry: Any = Counted()
    index = parse_index("0.index", content + bytes(10 << 20), entry, is_last=True, findings=Findings())
    assert index.entries == [(1, 256), (2, 512), (3, 768)]
    assert index.room == 10 << 20
    assert entry.unpacked == len(content)
