"""The bytes that the kernel still has to write for all files: a `syncfs` may have to wait for them."""

import os
import re

from libs.clock import SystemClock

UNKNOWN_DIRTY_BYTES = 1 << 62
_AGE_S_MAX = 0.01
_STATE = "/proc/meminfo"
_IN_KIB = re.compile(rb"^(?:Dirty|Writeback):\s+(\d+) kB$", re.MULTILINE)
_ERRORS_REPORTED_SINCE = (5, 8)
"""The first kernel whose `syncfs` reports failed writes."""


class DirtyBytes:
    """The number of bytes that the kernel still has to write. Any thread may use it."""

    def __init__(self, release: str | None = None) -> None:
        version = re.match(r"(\d+)\.(\d+)", os.uname().release if release is None else release)
        self._clock = SystemClock()
        self._dirty_bytes, self._good_until = UNKNOWN_DIRTY_BYTES, 0.0
        self._syncfs_reports_errors = version is not None and (int(version[1]), int(version[2])) >= _ERRORS_REPORTED_SINCE

    def read(self) -> int:
        """The number as of the last hundredth of a second. Rounds follow each other quickly, and each system call of a thread
        costs it the interpreter.

        It is `UNKNOWN_DIRTY_BYTES` where the kernel does not tell, or where its `syncfs` does not report errors.
        """
        now = self._clock.monotonic()
        if self._syncfs_reports_errors and now >= self._good_until:
            self._dirty_bytes, self._good_until = _read(), now + _AGE_S_MAX
        return self._dirty_bytes


def _read() -> int:
    try:
        fd = os.open(_STATE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sizes = _IN_KIB.findall(os.pread(fd, 4096, 0))
        finally:
            os.close(fd)
    except OSError:
        return UNKNOWN_DIRTY_BYTES
    return 1024 * sum(map(int, sizes)) if sizes else UNKNOWN_DIRTY_BYTES
