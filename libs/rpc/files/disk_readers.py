"""Threads that read cold file ranges into the page cache, a few for each disk: a disk that hangs holds up its own files only.

A disk is a device number. A file has one wherever its descriptor came from, and a gateway does not know log directories.
"""

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from libs.rpc.files.page_cache import warm

THREADS_A_DISK: Final = 8
IDLE_S: Final = 30.0
"""A thread without work ends after so long."""

OnEnd = Callable[[Exception | None], None]


class _Read:
    __slots__ = ("fd", "length", "loop", "on_end", "position")

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int, position: int, length: int, on_end: OnEnd) -> None:
        self.loop = loop
        self.fd = fd
        self.position = position
        self.length = length
        self.on_end = on_end


class _Disk:
    """The threads of one disk, and the reads that none of them has begun, in order."""

    __slots__ = ("_changed", "_idle", "_reads", "_threads")

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards the rest
        self._reads: OrderedDict[_Read, None] = OrderedDict()
        self._threads = 0
        self._idle = 0

    def submit(self, read: _Read) -> None:
        with self._changed:
            self._reads[read] = None
            if len(self._reads) <= self._idle:
                self._changed.notify()
            elif self._threads < THREADS_A_DISK:
                self._threads += 1
                # A daemon thread: a read that hangs must not keep the process from ending.
                threading.Thread(target=self._run, name="disk-reader", daemon=True).start()

    def drop(self, read: _Read) -> bool:
        with self._changed:
            if read not in self._reads:
                return False
            del self._reads[read]
            return True

    def _run(self) -> None:
        while (read := self._next()) is not None:
            failure: Exception | None = None
            try:
                warm(read.fd, read.position, read.length)
            except Exception as error:
                failure = error
            with suppress(RuntimeError):  # the loop has ended meanwhile
                read.loop.call_soon_threadsafe(read.on_end, failure)
            del read, failure  # while the thread waits, it keeps nothing alive

    def _next(self) -> _Read | None:
        """The next read, now begun. None: the thread ends."""
        with self._changed:
            while not self._reads:
                self._idle += 1
                notified = self._changed.wait(IDLE_S)
                self._idle -= 1
                if not notified and not self._reads:
                    self._threads -= 1
                    return None
            return self._reads.popitem(last=False)[0]


class DiskReaders:
    """The threads of all disks. Event loops use it, and never wait in it."""

    def __init__(self) -> None:
        self._disks: dict[int, _Disk] = {}

    def warm(self, fd: int, position: int, length: int, on_end: OnEnd) -> Callable[[], bool]:
        """Reads a range into the page cache, then calls `on_end` in the loop, with the error if there is one. The caller keeps
        `fd` open until then. Raises OSError.

        Returns a function that drops the read. If that returns True, the read had not begun and never will, and `on_end` is not
        called.
        """
        read = _Read(asyncio.get_running_loop(), fd, position, length, on_end)
        disk = self._disks.setdefault(disk_of(fd), _Disk())
        disk.submit(read)
        return lambda: disk.drop(read)


def disk_of(fd: int) -> int:
    return os.fstat(fd).st_dev
