"""The files of the metadata: what a process that was killed at any moment has left."""

import errno
from pathlib import Path

import pytest

from libs.cluster.memory.memory_keyspace import Keyspace
from libs.cluster.memory.recorded_store import Change
from libs.cluster.saved_metadata import parse_file
from libs.cluster.store import Put
from services.dev.metadata_files import JOURNAL, SNAPSHOT, Entry, MetadataDamaged, MetadataFiles, entries_in, line_of
from services.storage.threads.offload import ThreadOffload

CLUSTER_ID = "/penstock/cluster_id"


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A folder with a snapshot of one key, and a journal of two changes."""
    files = opened(tmp_path)
    keyspace = files.load()
    keyspace.write([Put(CLUSTER_ID, b'"c"')])
    files.begin()
    await files.record(keyspace.revision + 1, [Change("/penstock/x/a", b"1"), Change("/other/b", b"\xff")])
    await files.record(keyspace.revision + 2, [Change("/penstock/x/a", None)])
    await files.close()
    return tmp_path


def opened(folder: Path) -> MetadataFiles:
    return MetadataFiles(str(folder), ThreadOffload("metadata"), wall_ms=1)


def content(keyspace: Keyspace) -> dict[str, bytes]:
    return {item.key: item.value for item in keyspace.range("").items}


async def test_the_next_process_finds_every_change(folder: Path) -> None:
    assert content(opened(folder).load()) == {CLUSTER_ID: b'"c"', "/other/b": b"\xff"}


async def test_keys_keep_their_revisions_and_none_is_given_out_again(folder: Path) -> None:
    journaled = entries_in((folder / JOURNAL).read_bytes())
    keyspace = opened(folder).load()
    item = keyspace.get("/other/b")
    assert item is not None
    assert item.mod_revision == item.create_revision == journaled[0].revision
    assert keyspace.revision > journaled[-1].revision


async def test_a_start_makes_one_file_of_both(folder: Path) -> None:
    files = opened(folder)
    before = content(files.load())
    files.begin()
    await files.close()
    assert (folder / JOURNAL).read_bytes() == b""
    saved = parse_file((folder / SNAPSHOT).read_bytes())  # as `make restore` reads it
    assert {item.key: item.value for item in saved.items} == before
    assert content(opened(folder).load()) == before


async def test_a_kill_between_snapshot_and_journal_counts_no_change_twice(folder: Path) -> None:
    journal = (folder / JOURNAL).read_bytes()
    files = opened(folder)
    before = content(files.load())
    files.begin()
    await files.close()
    (folder / JOURNAL).write_bytes(journal)
    assert content(opened(folder).load()) == before


async def test_a_torn_last_line_is_a_change_that_was_never_made(folder: Path) -> None:
    journal = (folder / JOURNAL).read_bytes()
    first = journal.index(b"\n") + 1
    for length in range(first, len(journal)):
        (folder / JOURNAL).write_bytes(journal[:length])
        assert "/penstock/x/a" in content(opened(folder).load())


async def test_a_damaged_line_before_others_is_refused_by_name(folder: Path) -> None:
    journal = bytearray((folder / JOURNAL).read_bytes())
    journal[12] ^= 1
    (folder / JOURNAL).write_bytes(journal)
    with pytest.raises(MetadataDamaged, match=f"{JOURNAL}: line 1 does not match its checksum"):
        opened(folder).load()


async def test_a_damaged_snapshot_is_refused_by_name(folder: Path) -> None:
    (folder / SNAPSHOT).write_bytes((folder / SNAPSHOT).read_bytes()[:-20])
    with pytest.raises(MetadataDamaged, match=SNAPSHOT):
        opened(folder).load()


async def test_a_change_without_room_leaves_the_journal_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = opened(folder)
    files.load()
    files.begin()
    monkeypatch.setattr("services.dev.metadata_files.os.pwrite", lambda fd, line, at: 3)
    with pytest.raises(OSError, match="no room for a change of the metadata"):
        await files.record(10**9, [Change("a", b"1")])
    monkeypatch.undo()
    await files.record(10**9 + 1, [Change("b", b"2")])
    await files.close()
    assert [entry.changes for entry in entries_in((folder / JOURNAL).read_bytes())] == [(Change("b", b"2"),)]


async def test_after_a_sync_that_failed_no_change_is_taken_any_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = opened(folder)
    files.load()
    files.begin()

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr("services.dev.metadata_files.os.fdatasync", fail)
    with pytest.raises(OSError, match="the disk is broken"):
        await files.record(10**9, [Change("a", b"1")])
    monkeypatch.undo()
    with pytest.raises(OSError, match="the disk is broken"):
        await files.record(10**9 + 1, [Change("b", b"2")])
    await files.close()


async def test_a_full_journal_becomes_a_snapshot(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.dev.metadata_files.JOURNAL_BYTES_MAX", 200)
    files = opened(folder)
    keyspace = files.load()
    files.begin()
    for number in range(20):
        revision = keyspace.revision + 1
        await files.record(revision, [Change("a", b"%d" % number)])
        keyspace.write([Put("a", b"%d" % number)])
    await files.close()
    assert (folder / JOURNAL).stat().st_size <= 200
    assert content(opened(folder).load())["a"] == b"19"


def test_an_entry_is_read_as_it_was_written() -> None:
    entry = Entry(7, (Change("a\n/ü", b"\x00\xff"), Change("b", None)))
    assert entries_in(line_of(entry)) == [entry]
