"""Files that storage nodes pass to a gateway on their kernel: the page cache's inodes themselves, behind
`libs.rpc.files.passed_files`.

What the kernel does with the page cache is drawn: now and then it lacks a range, which is there again a moment later.
"""

import errno
import os
from collections.abc import Sequence
from random import Random

from libs.rpc.files.passed_files import Mapping
from tests.simulation.disk import SimulatedDisk
from tests.simulation.inodes import SimFile

COLD_SHARE = 0.02
TRUNCATED_SHARE = 0.25
"""Messages that come while the process has no room for their descriptors (MSG_CTRUNC)."""
PART_SHARE = 0.5
"""Messages that are not received whole at first."""


class SimulatedPassedFiles:
    """Implements `PassedFiles`, for one process. Its descriptors stand in the table of its disk; the files are on others."""

    def __init__(self, disk: SimulatedDisk, random: Random) -> None:
        self._disk, self._random = disk, random

    def adopt(self, files: Sequence[SimFile]) -> list[int] | None:
        """Descriptors for the files of one message. None: there was no room for them."""
        if self._random.random() < TRUNCATED_SHARE:
            return None
        return [self._disk.adopt(file) for file in files]

    def part_of(self, count: int) -> int:
        """So much of the bytes that descriptors came with is received at once."""
        return self._random.randrange(1, count + 1) if self._random.random() < PART_SHARE else count

    def read_cached(self, fd: int, position: int, length: int) -> bytearray | None:
        if self._random.random() < COLD_SHARE:
            return None
        try:
            return bytearray(self._disk.page_cache(fd, length, position))
        except OSError:
            return None

    def is_cached(self, fd: int, position: int, length: int) -> bool:
        return self._random.random() >= COLD_SHARE

    def mapped(self, fd: int, mapping: Mapping | None, start: int, end: int) -> Mapping | None:
        size = self._disk.size(fd)
        if size < end:
            return None
        if self._random.random() < COLD_SHARE:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return memoryview(self._disk.page_cache(fd, size, 0))

    def close(self, fd: int) -> None:
        self._disk.close(fd)
