"""Transactions as `inspect` shows them, and a `.txnindex` that lies, as `verify` reports it."""

import shutil
from pathlib import Path

import pytest

from libs.commitlog import __main__ as tool
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.inspection.directory import verify
from libs.commitlog.inspection.findings import Findings
from libs.commitlog.producers.transaction_index import ENTRY
from tests.commitlog.harness import append_some, open_log, sync
from tests.commitlog.transactional import end, produce

INDEX = f"{0:020d}.txnindex"


def make(path: Path) -> Path:
    """Producer 1 commits, 2 and 3 abort (offsets 1 and 2, markers at 4 and 5), 4 goes on."""
    log = open_log(path)
    for producer in (1, 2, 3):
        produce(log, producer)
    end(log, 1, commit=True)
    end(log, 2, commit=False)
    end(log, 3, commit=False)
    produce(log, 4)
    log.close(clean=True)
    (path / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("sound") / "t-0")


@pytest.fixture
def partition(sound: Path, tmp_path: Path) -> Path:
    return shutil.copytree(sound, tmp_path / "t-0")


def problems(path: Path) -> list[str]:
    findings = Findings()
    verify(OsFileSystem(), str(path), findings, records=False)
    return [f"{Path(finding.path).name}@{finding.position}: {finding.message}" for finding in findings.entries]


def entry(producer: int, first: int, last: int, stable: int, version: int = 0) -> bytes:
    return ENTRY.pack(version, producer, first, last, stable)


def test_a_sound_index_is_sound(partition: Path) -> None:
    assert problems(partition) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["has no entry for producer 2, offsets 1 to 4", "has no entry for producer 3, offsets 2 to 5"]),
        (entry(2, 1, 4, 2) + entry(3, 2, 5, 6)[:-1], ["not a whole number of entries", "has no entry for producer 3"]),
        (entry(2, 1, 4, 2, version=1) + entry(3, 2, 5, 6), ["version 1", "has no entry for producer 2"]),
        (entry(2, 1, 4, 2) + entry(2, 1, 4, 2) + entry(3, 2, 5, 6), ["entry 1", "out of order"]),
        (entry(1, 0, 3, 1) + entry(2, 1, 4, 2) + entry(3, 2, 5, 6), ["ends with a marker that commits what producer 1 wrote"]),
        (entry(2, 1, 4, 2) + entry(9, 2, 5, 6), ["ends with a marker that aborts what producer 3 wrote"]),
        (entry(2, 1, 4, 2) + entry(3, 2, 5, 6) + entry(4, 6, 7, 8), ["should end with a marker in this segment, and does not"]),
        (entry(2, 2, 4, 2) + entry(3, 2, 5, 6), ["leaves out what it wrote from offset 1 on"]),
        (entry(2, 6, 4, 2) + entry(3, 2, 5, 6), ["ends before it begins"]),
    ],
)
def test_an_index_that_lies_is_found_out(partition: Path, content: bytes, words: list[str]) -> None:
    (partition / INDEX).write_bytes(content)
    messages = problems(partition)
    assert all(message.startswith(INDEX) for message in messages)
    for word in words:
        assert any(word in message for message in messages), messages


def test_a_missing_index_is_missed(partition: Path) -> None:
    (partition / INDEX).unlink()
    assert len(problems(partition)) == 2


def test_entries_that_no_sync_round_has_written_yet_are_not_missed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    (tmp_path / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", encoding="utf-8")
    append_some(log, 1)
    sync(log, resume_point=True)
    produce(log, 1)
    end(log, 1, commit=False)
    sync(log)
    assert not (tmp_path / "t-0" / INDEX).exists()
    assert problems(tmp_path / "t-0") == []


def test_open_transactions_markers_and_aborts_are_shown(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["inspect", str(partition)]) == 0
    output = capsys.readouterr().out
    assert "1 open, the first since offset 6" in output
    assert "since offset 6" in output.partition("producer")[2]
    titles = next(line for line in output.splitlines() if "aborted" in line).split()
    assert "aborted" in titles
    assert tool.main(["inspect", "--batches", str(partition)]) == 0
    output = capsys.readouterr().out
    assert output.count("abort marker of coordinator epoch 0") == 2
    assert output.count("commit marker of coordinator epoch 0") == 1
