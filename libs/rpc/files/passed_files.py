"""The port for files whose descriptors another process on this host passed: reads that never wait for a disk, and the end.

Real: `OsPassedFiles`. A stream passes descriptors, so a transport says which of them its streams' are (`Transport.passed_files`).
"""

import errno
import mmap
import os
from typing import Protocol

from libs.rpc.files import page_cache

MADV_POPULATE_READ = 22  # not in `mmap` yet

Mapping = mmap.mmap | memoryview


class PassedFiles(Protocol):
    """Reads of passed files, by descriptor."""

    def read_cached(self, fd: int, position: int, length: int) -> bytearray | None:
        """The bytes of a range, fewer where the page cache or the file ends. None: the page cache lacks them, or an error."""
        ...

    def is_cached(self, fd: int, position: int, length: int) -> bool:
        """Whether the range is in the page cache, see `page_cache.is_cached`. Raises OSError."""
        ...

    def mapped(self, fd: int, mapping: Mapping | None, start: int, end: int) -> Mapping | None:
        """`mapping`, or a new one, of at least the file's first `end` bytes. Those from `start` on may be read at once. None: the
        file is shorter.

        Raises OSError. A mapping takes a descriptor. Also, the kernel is asked to load the range: for an unreadable sector or a
        truncated file it then returns an error, where a plain read of the mapping would kill the process. EINVAL: a kernel that
        cannot load it, or cannot tell whether it would wait (before 6.5). EAGAIN: a page is missing.
        """
        ...

    def close(self, fd: int) -> None: ...


class OsPassedFiles:
    """The kernel's descriptors."""

    def read_cached(self, fd: int, position: int, length: int) -> bytearray | None:
        data = bytearray(length)
        try:
            got = os.preadv(fd, (data,), position, os.RWF_NOWAIT)
        except OSError:
            return None
        return data if got == length else data[:got]

    def is_cached(self, fd: int, position: int, length: int) -> bool:
        return page_cache.is_cached(fd, position, length)

    def mapped(self, fd: int, mapping: Mapping | None, start: int, end: int) -> Mapping | None:
        if mapping is None or len(mapping) < end:
            size = os.fstat(fd).st_size
            if size < end:
                return None
            mapping = mmap.mmap(fd, size, access=mmap.ACCESS_READ)
        assert not isinstance(mapping, memoryview), "a simulated one"
        if not (known := page_cache.has_all_pages(fd, start, end - start)):
            number = errno.EINVAL if known is None else errno.EAGAIN
            raise OSError(number, os.strerror(number))
        first = start - start % mmap.PAGESIZE
        mapping.madvise(MADV_POPULATE_READ, first, end - first)
        return mapping

    def close(self, fd: int) -> None:
        os.close(fd)
