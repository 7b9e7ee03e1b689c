"""How much the kernel has still to write, of all files: that is what a `syncfs` may have to wait for."""

import os
import re

from libs.clock import SystemClock

A_LOT = 1 << 62
_AGE_S_MAX = 0.01
_STATE = "/proc/meminfo"
_IN_KIB = re.compile(rb"^(?:Dirty|Writeback):\s+(\d+) kB$", re.MULTILINE)
_ERRORS_TOLD_SINCE = (5, 8)
"""The kernel whose `syncfs` first told of writes that had failed."""


class UnwrittenBytes:
    """Used by any thread."""

    def __init__(self, release: str | None = None) -> None:
        found = re.match(r"(\d+)\.(\d+)", os.uname().release if release is None else release)
        self._clock = SystemClock()
        self._found, self._good_until = A_LOT, 0.0
        self._syncfs_tells = found is not None and (int(found[1]), int(found[2])) >= _ERRORS_TOLD_SINCE

    def read(self) -> int:
        """As of the last hundredth of a second: rounds follow each other, and a thread's system calls cost it the interpreter.

        `A_LOT` where nobody knows, or where `syncfs` would keep its errors to itself.
        """
        now = self._clock.monotonic()
        if self._syncfs_tells and now >= self._good_until:
            self._found, self._good_until = _read(), now + _AGE_S_MAX
        return self._found


def _read() -> int:
    try:
        fd = os.open(_STATE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = _IN_KIB.findall(os.pread(fd, 4096, 0))
        finally:
            os.close(fd)
    except OSError:
        return A_LOT
    return 1024 * sum(map(int, found)) if found else A_LOT
