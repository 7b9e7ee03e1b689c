"""The page cache: whether it holds a file range, and how to read one into it without blocking the event loop."""

import ctypes
import errno
import os

WINDOW = 1 << 18
"""The size of the pieces in which a range is looked at, warmed and sent."""
_STEP = 131_072  # the kernel's usual readahead: what is cached at both ends of a step is most likely cached between
_PAGE = 4096
_CACHESTAT = 451  # the same on every architecture; since 6.5

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Counts(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted"))


def is_cached(fd: int, position: int, length: int) -> bool:
    """Whether the range is in the page cache, without waiting for the disk.

    A byte of each step tells whether its page can be read. `cachestat` tells whether a page between is missing; a kernel before
    6.5 has none, and then the bytes alone decide. True also where neither can tell.
    """
    last = position + length - 1
    byte = bytearray(1)
    for at in (*range(position, last, _STEP), last):
        try:
            os.preadv(fd, [byte], at, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                break
            raise
    return has_all_pages(fd, position, length) is not False


def has_all_pages(fd: int, position: int, length: int) -> bool | None:
    """Whether the page cache has each page of the range. None: the kernel does not tell."""
    first, last = position // _PAGE, (position + length - 1) // _PAGE
    wanted, counts = _Range(first * _PAGE, (last - first + 1) * _PAGE), _Counts()
    if _syscall(_CACHESTAT, fd, ctypes.byref(wanted), ctypes.byref(counts), 0) != 0:
        return None
    return bool(counts.cached >= last - first + 1)


def warm(fd: int, position: int, length: int) -> None:
    """Reads the range into the page cache. It blocks, so it is for a thread."""
    scratch = bytearray(min(length, 262_144))
    stop = position + length
    while position < stop:
        nbytes = os.preadv(fd, [memoryview(scratch)[: stop - position]], position)
        if nbytes == 0:
            return
        position += nbytes
