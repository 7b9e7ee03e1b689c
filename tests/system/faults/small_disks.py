"""File systems of a few megabytes, mounted for one test: they fill up, and a power cut can be played on them."""

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.requirements import require

EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_LOG_FLUSH = 2


@contextmanager
def small_disk(kind: str, directory: Path, mebibytes: int) -> Iterator[Path]:
    """An empty `ext4` or `tmpfs`, mounted below `directory`."""
    require("root")
    at = directory / kind
    at.mkdir()
    if kind == "tmpfs":
        _run("mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "penstock-test", str(at))
    else:
        image = directory / f"{kind}.img"
        with open(image, "wb") as file:
            file.truncate(mebibytes << 20)
        _run("mkfs.ext4", "-q", "-m", "0", str(image))
        _mount_image(image, at)
    try:
        yield at
    finally:
        _run("umount", "-l", str(at))


def cut_power(at: Path) -> None:
    """From now on all input and output of this ext4 fails, and what was not synced is lost."""
    descriptor = os.open(at, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_LOG_FLUSH))
    finally:
        os.close(descriptor)


def power_on(at: Path) -> None:
    """Mounts the disk again after `cut_power`, once no file on it is open, as at the next boot."""
    _run("umount", str(at))
    _mount_image(at.with_suffix(".img"), at)


def free_bytes(at: Path) -> int:
    found = os.statvfs(at)
    return found.f_bavail * found.f_frsize


def _mount_image(image: Path, at: Path) -> None:
    _run("mount", "-o", "loop", str(image), str(at))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
