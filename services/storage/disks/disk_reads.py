"""The lookups that wait for a disk. The threads of that disk read what the page cache lacks, and then the lookup is tried again.

An event loop waits for no disk. So a disk that hangs takes its own threads, and as many lookups as may wait for it. Others go by.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from typing import TypeVar

from libs.commitlog.files.page_cache import FIRST_ATTEMPT, ColdRead, NonblockingLookup, NotInPageCache, Outcome
from services.storage.threads.offload import Offload

T = TypeVar("T")

PATIENCE_S = 60.0
"""How long the background work waits for the disk of one partition. Then it leaves that disk alone for this time."""
WAITING_MAX = 1000
"""The limit of reads that one disk is asked for and has not done."""
KEPT_S = 1.0
"""The time for which what was read is kept for the next attempt."""


class TooManyReads(Exception):
    """A read that was not begun, since too many wait for its disk."""


class _Waiting:
    __slots__ = ("is_read", "lookup", "on_read")

    def __init__(self, on_read: Callable[[], None]) -> None:
        self.lookup = NonblockingLookup()
        self.on_read = on_read
        self.is_read = False


class DiskReads:
    """The reads under way, by what they read, and the lookups that wait for them.

    A lookup of the event loop either makes its attempts in `attempt` and hands each miss to `missed`, or is driven by `finish`.
    """

    def __init__(self, threads_at: Callable[[str], Offload | None]) -> None:
        """`threads_at`: the threads of the disk that holds a path. None: no disk of this node does."""
        self._threads_at = threads_at
        self._waiting: dict[Hashable, _Waiting] = {}
        self._reads: dict[Hashable, asyncio.Future[Outcome]] = {}
        self._unfinished: Counter[Offload] = Counter()

    @property
    def unfinished(self) -> int:
        """The number of reads that were asked for and are not done."""
        return self._unfinished.total()

    def attempt(self, what: Hashable) -> NonblockingLookup:
        """The lookup in which the next attempt is made. `what` names it, so that it comes further each time."""
        waiting = self._waiting.get(what)
        return waiting.lookup if waiting is not None else FIRST_ATTEMPT

    def missed(self, what: Hashable, needed: ColdRead, on_read: Callable[[], None]) -> None:
        """Has a thread read what an attempt missed, and then calls `on_read`, which makes the next attempt. Raises
        TooManyReads."""
        waiting = self._waiting.get(what)
        if waiting is not None and not waiting.is_read:
            return  # it missed the same again, while the thread still reads
        read = self._read(needed)
        if waiting is None:
            waiting = self._waiting[what] = _Waiting(on_read)
        waiting.is_read = False

        def ended(done: "asyncio.Future[Outcome]") -> None:
            if done.cancelled():
                self._waiting.pop(what, None)
                return
            waiting.lookup.take(needed, done.result())
            waiting.is_read = True
            waiting.on_read()
            asyncio.get_running_loop().call_later(KEPT_S, self._forget, what, waiting)

        read.add_done_callback(ended)

    def _forget(self, what: Hashable, waiting: _Waiting) -> None:
        if waiting.is_read and self._waiting.get(what) is waiting:
            del self._waiting[what]

    async def look_up(self, lookup: Callable[[], T], within_s: float) -> T:
        """The result of a lookup that nobody waits for. Raises its errors, TooManyReads, and TimeoutError."""
        try:
            with FIRST_ATTEMPT:
                return lookup()
        except NotInPageCache as miss:
            needed = miss.read
        async with asyncio.timeout(within_s):
            return await self.finish(needed, lookup)

    async def finish(self, needed: ColdRead, lookup: Callable[[], T]) -> T:
        """The result of a lookup whose first attempt needed that read. Raises its errors, and TooManyReads."""
        attempts = NonblockingLookup()
        while True:
            attempts.take(needed, await asyncio.shield(self._read(needed)))
            try:
                with attempts:
                    return lookup()
            except NotInPageCache as miss:
                needed = miss.read

    async def submit(self, path: str, work: Callable[[], T]) -> T:
        """Does `work` in a thread of the disk that holds `path`. Raises its errors, and TooManyReads."""
        return await self._submit(path, work)

    def _read(self, needed: ColdRead) -> "asyncio.Future[Outcome]":
        """The read under way, which may serve several lookups."""
        read = self._reads.get(needed.key)
        if read is None:
            read = self._reads[needed.key] = self._submit(needed.path, needed)
            read.add_done_callback(lambda _: self._reads.pop(needed.key, None))
        return read

    def _submit(self, path: str, work: Callable[[], T]) -> "asyncio.Future[T]":
        threads = self._threads_at(path)
        if threads is None or self._unfinished[threads] >= WAITING_MAX:
            raise TooManyReads(path)
        self._unfinished[threads] += 1

        def ended(_: object) -> None:
            self._unfinished[threads] -= 1

        future = threads.submit(work)
        future.add_done_callback(ended)
        return future
