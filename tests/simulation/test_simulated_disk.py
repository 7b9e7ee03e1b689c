"""The simulated disk does what real ones do at their worst, and never worse."""

import errno
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TypeVar

import pytest

from libs.commitlog.model.errors import DirectoryLocked
from tests.simulation.disk import SimulatedDisk
from tests.simulation.sometimes import Sometimes

OUTCOMES = 200
T = TypeVar("T")


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Sometimes(), page_size=512)


def write(disk: SimulatedDisk, path: str, data: bytes) -> int:
    fd = disk.open_append(path, create=not disk.exists(path))
    disk.pwritev(fd, [data], disk.size(fd))
    return fd


def content(disk: SimulatedDisk, path: str) -> bytes | None:
    return disk.pread(disk.open_read(path), 1 << 20, 0) if disk.exists(path) else None


def outcomes(disk: SimulatedDisk, look: Callable[[SimulatedDisk], T]) -> list[T]:
    return [look(disk.crashed(Random(f"{number}"))) for number in range(OUTCOMES)]


def test_unsynced_bytes_may_be_there_or_not(disk: SimulatedDisk) -> None:
    fd = write(disk, "/a", b"x" * 100)
    disk.fsync_directory("/")
    found = set(outcomes(disk, lambda image: content(image, "/a")))
    assert {b"", b"x" * 100, bytes(100)} <= found
    disk.fdatasync(fd)
    assert set(outcomes(disk, lambda image: content(image, "/a"))) == {b"x" * 100}


def test_a_synced_file_is_lost_without_its_name(disk: SimulatedDisk) -> None:
    disk.fdatasync(write(disk, "/a", b"x"))
    assert set(outcomes(disk, lambda image: image.exists("/a"))) == {True, False}
    disk.fsync_directory("/")
    assert set(outcomes(disk, lambda image: image.exists("/a"))) == {True}


def test_pages_are_lost_one_by_one_and_torn(disk: SimulatedDisk) -> None:
    write(disk, "/a", b"x" * 1536)
    disk.fsync_directory("/")
    found = set(outcomes(disk, lambda image: content(image, "/a")))
    assert any(page[:512] == b"x" * 512 and page[512:1024] == bytes(512) and page[1024:] == b"x" * 512 for page in found if page)
    assert any(page and b"x\0" in page[:512] for page in found)


def test_a_rename_is_whole_and_may_come_before_the_data(disk: SimulatedDisk) -> None:
    disk.fdatasync(write(disk, "/a", b"old"))
    disk.fsync_directory("/")
    write(disk, "/a.tmp", b"new")
    disk.rename("/a.tmp", "/a")
    found = set(outcomes(disk, lambda image: content(image, "/a")))
    assert {b"old", b"new", b""} <= found
    assert None not in found
    assert disk.sometimes.counts["rename before data"]


def test_names_come_in_the_order_in_which_they_were_made(disk: SimulatedDisk) -> None:
    write(disk, "/a", b"")
    write(disk, "/b", b"")
    found = set(outcomes(disk, lambda image: (image.exists("/a"), image.exists("/b"))))
    assert found == {(False, False), (True, False), (True, True)}


def test_a_truncated_file_reads_zeros_when_it_grows_again(disk: SimulatedDisk) -> None:
    fd = write(disk, "/a", b"x" * 10)
    disk.truncate(fd, 4)
    disk.truncate(fd, 8)
    assert content(disk, "/a") == b"xxxx\0\0\0\0"
    disk.fdatasync(fd)
    disk.fsync_directory("/")
    assert set(outcomes(disk, lambda image: content(image, "/a"))) == {b"xxxx\0\0\0\0"}


def test_mapped_writes_are_seen_at_once_and_synced_like_others(disk: SimulatedDisk) -> None:
    fd = write(disk, "/a", bytes(8))
    disk.fdatasync(fd)
    disk.fsync_directory("/")
    view = disk.map_write(fd, 8)
    view[0:2] = b"ab"
    assert content(disk, "/a") == b"ab" + bytes(6)
    assert set(outcomes(disk, lambda image: content(image, "/a"))) >= {bytes(8), b"ab" + bytes(6)}
    disk.fdatasync(fd)
    assert set(outcomes(disk, lambda image: content(image, "/a"))) == {b"ab" + bytes(6)}


def test_a_failed_sync_is_said_once_and_its_pages_are_never_written(disk: SimulatedDisk) -> None:
    lost = 0
    for number in range(20):
        disk.random = Random(f"{number}")
        fd = write(disk, f"/{number}", b"x" * 10)
        disk.fsync_directory("/")
        disk.faults.fail("fdatasync", errno.EIO)
        with pytest.raises(OSError, match="Input/output error"):
            disk.fdatasync(fd)
        disk.fdatasync(fd)
        found = set(outcomes(disk, partial(content, path=f"/{number}")))
        assert len(found) == 1
        lost += found != {b"x" * 10}
    assert lost
    assert disk.sometimes.counts["failed fsync served what it dropped"]


def test_one_sync_of_everything_is_enough(disk: SimulatedDisk) -> None:
    disk.make_directories("/d/e")
    write(disk, "/d/e/a", b"x")
    disk.sync_all("/d")
    assert set(outcomes(disk, lambda image: content(image, "/d/e/a"))) == {b"x"}


def test_a_kill_loses_nothing_until_the_power_goes(disk: SimulatedDisk) -> None:
    write(disk, "/a", b"x")
    left = disk.as_left_by_a_kill()
    assert content(left, "/a") == b"x"
    assert set(outcomes(left, lambda image: content(image, "/a"))) >= {None, b"x"}


def test_a_lock_is_held_until_its_process_dies(disk: SimulatedDisk) -> None:
    disk.lock("/lock")
    with pytest.raises(DirectoryLocked):
        disk.lock("/lock")
    disk.killed()
    disk.lock("/lock")


def test_asked_for_errors_come_once(disk: SimulatedDisk) -> None:
    fd = write(disk, "/a", b"")
    disk.faults.fail("pwritev", errno.ENOSPC, after=1)
    assert disk.pwritev(fd, [b"x"], 0) == 1
    with pytest.raises(OSError, match="No space"):
        disk.pwritev(fd, [b"x"], 1)
    assert disk.pwritev(fd, [b"x"], 1) == 1


def test_pages_that_a_disk_keeps_are_there_after_every_power_cut(disk: SimulatedDisk) -> None:
    fd = write(disk, "/a", b"x" * 100)
    assert not disk.keeps("/a", 100)
    disk.fdatasync(fd)
    assert not disk.keeps("/a", 100), "its name may go"
    disk.fsync_directory("/")
    assert disk.keeps("/a", 100)
    write(disk, "/a", b"y" * 100)
    assert disk.keeps("/a", 100)
    assert not disk.keeps("/a", 101)
    assert {found[:100] for found in outcomes(disk, lambda image: content(image, "/a")) if found is not None} == {b"x" * 100}
    disk.truncate(fd, 50)
    disk.pwritev(fd, [b"x" * 50], 50)
    assert disk.keeps("/a", 50)
    assert not disk.keeps("/a", 100), "the cut may reach the disk, and what was written behind it not"
    assert not disk.keeps("/b", 0)
    assert not disk.keeps("/b/a", 0)


def test_pages_that_a_failed_sync_dropped_are_not_kept(disk: SimulatedDisk) -> None:
    fd = write(disk, "/a", b"x" * 5120)
    disk.fsync_directory("/")
    disk.random = Random(2)
    disk.faults.fail("fdatasync", errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        disk.fdatasync(fd)
    disk.fdatasync(fd)
    assert not disk.keeps("/a", 5120)
