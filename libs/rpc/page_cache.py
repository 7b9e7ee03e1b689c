"""The page cache: whether it holds a file range, and how to read one into it without blocking the event loop."""

import errno
import os

WINDOW = 1 << 18
"""The size of the pieces in which a range is looked at, warmed and sent."""
_STEP = 131_072  # the kernel's usual readahead: what is cached at both ends of a step is most likely cached between


def is_cached(fd: int, position: int, length: int) -> bool:
    """Whether the range is in the page cache, judged by one byte a step, without waiting for the disk. True also where the file
    system cannot tell."""
    last = position + length - 1
    byte = bytearray(1)
    for at in (*range(position, last, _STEP), last):
        try:
            os.preadv(fd, [byte], at, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                return True
            raise
    return True


def warm(fd: int, position: int, length: int) -> None:
    """Reads the range into the page cache. It blocks, so it is for a thread."""
    scratch = bytearray(min(length, 262_144))
    stop = position + length
    while position < stop:
        nbytes = os.preadv(fd, [memoryview(scratch)[: stop - position]], position)
        if nbytes == 0:
            return
        position += nbytes
