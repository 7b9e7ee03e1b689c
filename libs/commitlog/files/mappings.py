"""System calls that Python lacks: mappings without a descriptor of their own, and opening without waiting for a disk.

`mmap.mmap` duplicates the descriptor, so each mapped file would count twice against the limit of the process.
"""

import ctypes
import errno
import mmap
import os
import weakref

_libc = ctypes.CDLL(None, use_errno=True)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_munmap = _libc.munmap
_munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_MAP_FAILED = ctypes.c_void_p(-1).value

_OPENAT2 = 437  # the same on every architecture
_AT_FDCWD = -100
_RESOLVE_CACHED = 0x20


class FileMapping:
    """The first bytes of a file, mapped to be read. The mapping ends with this object and the last view of it: to touch it
    later would end the process."""

    __slots__ = ("_length", "view")

    def __init__(self, address: int, length: int) -> None:
        self._length = length
        content = (ctypes.c_ubyte * length).from_address(address)  # each view holds on to it
        weakref.finalize(content, _munmap, address, length).atexit = False
        self.view = memoryview(content).cast("B").toreadonly()

    def __len__(self) -> int:
        return self._length


def map_file(fd: int, length: int) -> FileMapping:
    """Maps a file. Nothing of it is read. Raises OSError."""
    address = _mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if address is None or address == _MAP_FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return FileMapping(address, length)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_without_waiting(path: str, flags: int) -> int | None:
    """Opens an existing file if the kernel has its names and its inode in memory. None if it has not, or cannot tell (before
    5.12). Raises OSError."""
    how = _OpenHow(flags, 0, _RESOLVE_CACHED)
    fd = _syscall(_OPENAT2, _AT_FDCWD, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    if fd >= 0:
        return int(fd)
    number = ctypes.get_errno()
    # EINVAL: a kernel before 5.12. ENOSYS and EPERM: an older one, or a filter of system calls.
    if number in (errno.EAGAIN, errno.EINVAL, errno.ENOSYS, errno.EPERM):
        return None
    raise OSError(number, os.strerror(number), path)
