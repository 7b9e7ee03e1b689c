"""A log directory: identity, lock, clean stop, partitions, checkpoints."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from libs.commitlog.checkpoints.offset_checkpoint import FORMER_VERSIONS, KAFKAS, Entry
from libs.commitlog.files.filesystem import Buffer
from libs.commitlog.files.reserved_file import RESERVE_SUFFIX
from libs.commitlog.model.errors import DirectoryLocked, DirectoryOwnerMismatch, DirectoryRetired
from libs.commitlog.partition_log.directory import CLEANED_OFFSETS, LOG_START_OFFSETS, RECOVERY_POINTS, LogDirectory
from tests.commitlog.harness import FaultyFileSystem, QuickFileSystem, flipped

ID, OTHER = bytes(range(16)), bytes(range(16, 32))


def open_directory(path: Path, new_id: bytes = ID, node_id: int = 1) -> LogDirectory:
    return LogDirectory.open(str(path), QuickFileSystem(), new_id=new_id, node_id=node_id)


def test_a_directory_keeps_its_identity(tmp_path: Path) -> None:
    open_directory(tmp_path).close()
    assert open_directory(tmp_path, OTHER).directory_id == ID
    lines = (tmp_path / "meta.properties").read_text(encoding="utf-8").splitlines()
    assert lines == ["directory.id=AAECAwQFBgcICQoLDA0ODw", "node.id=1", "version=1"]


def test_another_nodes_directory_is_refused(tmp_path: Path) -> None:
    open_directory(tmp_path).close()
    with pytest.raises(DirectoryOwnerMismatch, match="belongs to another node, 1, not to 2"):
        open_directory(tmp_path, node_id=2)


def test_another_clusters_directory_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    def open_in(cluster_id: str) -> LogDirectory:
        return LogDirectory.open(str(tmp_path), QuickFileSystem(), new_id=ID, node_id=1, cluster_id=cluster_id)

    open_in("ours").close()
    before = (tmp_path / "meta.properties").read_bytes()
    with pytest.raises(DirectoryOwnerMismatch, match="belongs to another cluster, ours, not to theirs"):
        open_in("theirs")
    assert (tmp_path / "meta.properties").read_bytes() == before
    open_in("ours").close()


def test_a_second_process_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    held = open_directory(tmp_path)
    script = (
        "import sys; from libs.commitlog.partition_log.directory import LogDirectory\n"
        "from libs.commitlog.files.filesystem import OsFileSystem\n"
        "from libs.commitlog.model.errors import DirectoryLocked\n"
        "try: LogDirectory.open(sys.argv[1], OsFileSystem(), new_id=bytes(16), node_id=1)\n"
        "except DirectoryLocked: sys.exit(42)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == 42
    with pytest.raises(DirectoryLocked):
        open_directory(tmp_path)
    held.close()
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == 0


def test_a_clean_stop_is_seen_once(tmp_path: Path) -> None:
    """KAFKA-10471: a crash while loading is still an unclean stop."""
    directory = open_directory(tmp_path)
    assert not directory.was_clean
    directory.mark_clean()
    directory.close()
    again = open_directory(tmp_path)
    assert again.was_clean
    again.close()
    assert not open_directory(tmp_path).was_clean


def test_partitions_are_listed_with_their_topic_ids(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    directory.create_partition("a-b", 3, ID)
    directory.create_partition("a", 12, OTHER)
    for name in ("lost+found", "no-metadata-1", "x-y"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-1").write_bytes(b"")
    (tmp_path / "damaged-1").mkdir()
    (tmp_path / "damaged-1" / "partition.metadata").write_bytes(b"?")
    listed = directory.list_partitions()
    assert [(p.topic, p.partition, p.topic_id) for p in listed] == [("a", 12, OTHER), ("a-b", 3, ID)]
    metadata = (tmp_path / "a-12" / "partition.metadata").read_text(encoding="utf-8")
    assert metadata == "version: 0\ntopic_id: EBESExQVFhcYGRobHB0eHw\ncrc32c: 1048905244\n"


def test_a_flipped_bit_makes_no_partition_another_topics(tmp_path: Path) -> None:
    """It would be set aside as a stray, and an empty log begun under its name."""
    directory = open_directory(tmp_path)
    metadata = Path(directory.create_partition("a", 0, ID)) / "partition.metadata"
    sound = metadata.read_bytes()
    for bit in range(len(sound) * 8):
        damaged = flipped(sound, bit)
        metadata.write_bytes(damaged)
        assert [partition.topic_id for partition in directory.list_partitions()] in ([], [ID]), damaged


def test_a_partition_that_kafka_made_has_no_checksum_and_is_believed(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    metadata = Path(directory.create_partition("a", 0, ID)) / "partition.metadata"
    metadata.write_text("".join(metadata.read_text(encoding="utf-8").splitlines(keepends=True)[:2]), encoding="utf-8")
    assert [partition.topic_id for partition in directory.list_partitions()] == [ID]


def test_a_deleted_partition_makes_room_at_once_and_goes_later(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    directory.create_partition("t" * 249, 3, ID)
    path = directory.schedule_deletion("t" * 249, 3, ID)
    assert path.endswith(f"-3.{ID.hex()}-delete")
    assert len(Path(path).name) <= 255
    assert directory.list_partitions() == []
    assert directory.scheduled_deletions() == [path]
    directory.create_partition("t" * 249, 3, OTHER)
    directory.remove(path)
    assert directory.scheduled_deletions() == []
    assert len(directory.list_partitions()) == 1


def test_a_partition_leaves_a_full_disk_too(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    directory = LogDirectory.open(str(tmp_path), fs, new_id=bytes(16), node_id=1)
    directory.create_partition("t", 0, bytes(16))
    directory.write_checkpoint(LOG_START_OFFSETS, {("t", 0): Entry(0)})
    for operation in ("pwritev", "create"):
        fs.fail(operation, after=0)
    assert Path(directory.schedule_deletion("t", 0, bytes(16))).exists()
    assert not Path(directory.partition_path("t", 0)).exists()


class FullDisk(FaultyFileSystem):
    """A full disk that accepts only writes to reserved space."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self._reserved: set[int] = set()

    def _room(self, fd: int) -> None:
        if self.full and os.fstat(fd).st_ino not in self._reserved:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def reserve(self, fd: int, position: int, length: int) -> None:
        self._room(fd)
        self._reserved.add(os.fstat(fd).st_ino)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        self._room(fd)
        return super().pwritev(fd, buffers, position)


def test_log_starts_are_written_to_a_full_disk_once_and_again_when_there_was_room(tmp_path: Path) -> None:
    fs = FullDisk()
    directory = LogDirectory.open(str(tmp_path), fs, new_id=ID, node_id=1)
    directory.create_partition("t", 0, ID)
    directory.write_checkpoint(LOG_START_OFFSETS, {("t", 0): Entry(7), ("u", 0): Entry(5)})
    for round_ in range(2):
        fs.full = True
        with pytest.raises(OSError, match="No space"):
            directory.write_checkpoint(RECOVERY_POINTS, {("t", 0): Entry(7)})
        directory.write_checkpoint(LOG_START_OFFSETS, {("t", 0): Entry(8 + round_), ("u", 0): Entry(5)})
        assert offsets(directory, LOG_START_OFFSETS) == {("t", 0): 8 + round_, ("u", 0): 5}
        fs.full = False
        directory.reserve_space()
    fs.full = True
    assert Path(directory.schedule_deletion("t", 0, ID)).exists()
    assert offsets(directory, LOG_START_OFFSETS) == {("u", 0): 5}
    directory.close()
    fs.full = False
    assert LogDirectory.open(str(tmp_path), fs, new_id=ID, node_id=1).list_partitions() == []


def test_content_that_a_crash_left_in_the_spare_file_is_not_written_again(tmp_path: Path) -> None:
    fs = FullDisk()
    directory = LogDirectory.open(str(tmp_path), fs, new_id=ID, node_id=1)
    spare = tmp_path / (LOG_START_OFFSETS + RESERVE_SUFFIX)
    spare.write_bytes(b"x" * 500)
    fs.full = True
    directory.write_checkpoint(LOG_START_OFFSETS, {("t", 0): Entry(7)})
    assert offsets(directory, LOG_START_OFFSETS) == {("t", 0): 7}


def offsets(directory: LogDirectory, name: str) -> dict[tuple[str, int], int]:
    return {partition: entry.offset for partition, entry in directory.read_checkpoint(name).items()}


def test_checkpoints_are_kafkas_text(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    directory.write_checkpoint(RECOVERY_POINTS, {("t", 1): Entry(5), ("a", 0): Entry(2**40)})
    assert (tmp_path / RECOVERY_POINTS).read_text(encoding="utf-8").startswith(f"0\n3\na 0 {2**40}\nt 1 5\n")
    assert offsets(directory, RECOVERY_POINTS) == {("t", 1): 5, ("a", 0): 2**40}


def test_checkpoints_name_the_topics_too_in_lines_that_kafka_passes_over(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    entries = {("t", index): Entry(index, ID) for index in (0, 1, 2, 4)} | {("t", 3): Entry(3, OTHER), ("kafkas", 0): Entry(9)}
    directory.write_checkpoint(RECOVERY_POINTS, entries)
    lines = (tmp_path / RECOVERY_POINTS).read_text(encoding="utf-8").splitlines()
    assert lines[2:8] == ["kafkas 0 9", *[f"t {index} {index}" for index in range(5)]]
    assert lines[8:10] == [f"#topic-id:{ID.hex()}:t:0-2,4 0 0", f"#topic-id:{OTHER.hex()}:t:3 0 0"]
    unnamed = {("kafkas", 0): Entry(9, FORMER_VERSIONS)}
    directory.close()
    assert open_directory(tmp_path).read_checkpoint(RECOVERY_POINTS) == entries | unnamed


def test_an_entry_of_kafkas_names_no_topic(tmp_path: Path) -> None:
    (tmp_path / RECOVERY_POINTS).write_text("0\n1\nt 0 5\n", encoding="utf-8")
    assert open_directory(tmp_path).read_checkpoint(RECOVERY_POINTS) == {("t", 0): Entry(5, KAFKAS)}


@pytest.mark.parametrize("leave", [LogDirectory.set_aside, LogDirectory.schedule_deletion])
@pytest.mark.parametrize("full", [False, True], ids=["room", "full"])
def test_a_cleaned_offset_is_gone_before_its_name_is_free(
    tmp_path: Path, full: bool, leave: Callable[[LogDirectory, str, int, bytes], str]
) -> None:
    fs = FullDisk()
    directory = LogDirectory.open(str(tmp_path), fs, new_id=ID, node_id=1)
    directory.create_partition("t", 0, ID)
    directory.write_checkpoint(CLEANED_OFFSETS, {("t", 0): Entry(7, ID), ("u", 0): Entry(5, OTHER)})
    fs.full = full
    leave(directory, "t", 0, ID)
    assert offsets(directory, CLEANED_OFFSETS) == ({} if full else {("u", 0): 5})
    assert not Path(directory.partition_path("t", 0)).exists()
    fs.full = False
    directory.write_checkpoint(CLEANED_OFFSETS, {("u", 0): Entry(5, OTHER)})
    assert offsets(directory, CLEANED_OFFSETS) == {("u", 0): 5}


def test_a_directory_keeps_its_name_while_its_cleaned_offset_cannot_go(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    directory = LogDirectory.open(str(tmp_path), fs, new_id=ID, node_id=1)
    directory.create_partition("t", 0, ID)
    directory.write_checkpoint(CLEANED_OFFSETS, {("t", 0): Entry(7, ID)})
    fs.fail("fdatasync", after=0, error=errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        directory.schedule_deletion("t", 0, ID)
    assert Path(directory.partition_path("t", 0)).exists()


@pytest.mark.parametrize("full", [False, True], ids=["room", "full"])
def test_a_cleaned_offset_that_only_the_page_cache_lost_is_dropped_again(tmp_path: Path, full: bool) -> None:
    """The file is replaced or gone, and its directory was not synced."""
    fs = FullDisk()
    directory = LogDirectory.open(str(tmp_path), fs, new_id=ID, node_id=1)
    directory.write_checkpoint(CLEANED_OFFSETS, {("t", 0): Entry(7, ID)})
    fs.full = full
    fs.fail("fsync_directory", after=0, error=errno.EIO)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            directory.drop_cleaned_offset("t", 0)
    fs.heal()
    fs.calls.clear()
    directory.drop_cleaned_offset("t", 0)
    assert "fsync_directory" in fs.calls
    fs.calls.clear()
    directory.drop_cleaned_offset("t", 0)
    assert "fsync_directory" not in fs.calls


@pytest.mark.parametrize("content", [b"", b"1\n0\n", b"0\n2\nt 1 5\n", b"0\n1\nt 1\n", b"0\n1\nt x 5\n", b"\xff\xfe"])
def test_a_damaged_checkpoint_does_not_block_a_start(tmp_path: Path, content: bytes) -> None:
    """KAFKA-1758, KAFKA-2012."""
    directory = open_directory(tmp_path)
    assert directory.read_checkpoint(RECOVERY_POINTS) == {}
    (tmp_path / RECOVERY_POINTS).write_bytes(content)
    assert directory.read_checkpoint(RECOVERY_POINTS) == {}


def test_a_partition_set_aside_takes_its_log_start_with_it(tmp_path: Path) -> None:
    """Otherwise a new topic of that name, found after a crash, would begin at the other one's start, and lose its records before
    that."""
    directory = open_directory(tmp_path)
    directory.create_partition("t", 0, ID)
    directory.create_partition("t", 1, ID)
    directory.write_checkpoint(LOG_START_OFFSETS, {("t", 0): Entry(7), ("t", 1): Entry(9)})
    path = directory.set_aside("t", 0, ID)
    assert path.endswith(f"/t-0.{ID.hex()}-stray")
    directory.schedule_deletion("t", 1, ID)
    assert directory.read_checkpoint(LOG_START_OFFSETS) == {}
    assert directory.list_partitions() == []
    assert len(directory.scheduled_deletions()) == 1


def test_a_retired_directory_is_refused_with_the_reason_and_what_to_do(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    directory.mark_retired("fsync: Input/output error")
    directory.mark_retired("something later")
    directory.close()
    with pytest.raises(DirectoryRetired, match=r"was retired \(fsync: Input/output error\): check its disk, then remove"):
        open_directory(tmp_path)
    (tmp_path / ".retired").unlink()
    open_directory(tmp_path)
