"""Lookups that do not wait for a disk. A lookup takes from the page cache what it finds there; the rest is work for a thread.

Within `with lookup:`, whatever may wait raises `NotInPageCache` instead. The owner of the event loop has a thread of that disk do
the work, gives the outcome to the lookup, and tries again from the start. Outside, everything is read at once.
"""

import threading
from collections.abc import Callable, Hashable
from copy import copy
from typing import Any, TypeVar

from libs.commitlog.model.errors import WouldBlock

T = TypeVar("T")

READS_MAX = 1000
"""The limit of reads of one lookup. An index with an entry each few kilobytes needs five."""


class ColdRead:
    """What a lookup needs and the page cache may lack. Calling it, in any thread, waits for the disk."""

    def __init__(self, path: str, key: Hashable, work: Callable[[], Any]) -> None:
        self.path = path
        """A file or directory on that disk."""
        self.key = key
        """What is needed. Two lookups that need the same have the same key."""
        self._work = work

    def nonblocking(self) -> "Outcome":
        """As `__call__`, on an event loop. Raises WouldBlock, always: the lookup was just tried."""
        raise WouldBlock(self.path)

    def __call__(self) -> "Outcome":
        try:
            return Outcome(self._work(), None)
        except Exception as error:
            return Outcome(None, without_frames(error))


class NotInPageCache(WouldBlock):
    """A lookup stops here, since it needs `read` first.

    Whoever goes on later keeps `read`, not the error: its traceback holds the frames of the lookup, and so the files of a log
    that was closed meanwhile, until the cycle collector runs.
    """

    def __init__(self, read: ColdRead) -> None:
        super().__init__(read.path)
        self.read = read


def without_frames(error: Exception) -> Exception:
    """The error, for who keeps it. A traceback holds its frames, and these hold their callers': some has the error as its result,
    and some the files of a log. Only the cycle collector would free them.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


class Outcome:
    """The result of such work, or its error."""

    __slots__ = ("error", "result")

    def __init__(self, result: Any, error: Exception | None) -> None:
        self.result = result
        self.error = error


class NonblockingLookup:
    """A lookup on an event loop, over all its attempts. What threads have read for it stays, so each attempt comes further,
    although the page cache may lose it again and some file systems do not tell what it holds."""

    __slots__ = ("_outcomes",)

    def __init__(self) -> None:
        self._outcomes: dict[Hashable, Outcome] = {}

    def __enter__(self) -> None:
        assert _thread.lookup is None, "a lookup within a lookup"
        _thread.lookup = self

    def __exit__(self, *_: object) -> None:
        _thread.lookup = None

    def take(self, read: ColdRead, outcome: Outcome) -> None:
        self._outcomes[read.key] = outcome

    def needs(self, path: str, key: Hashable, work: Callable[[], T]) -> T:
        """What `work` returned in its thread. Raises its error, and NotInPageCache if nobody has done it."""
        outcome = self._outcomes.get(key)
        if outcome is None:
            if len(self._outcomes) >= READS_MAX:
                raise OSError(f"{path}: a lookup needs more than {READS_MAX} reads")
            raise NotInPageCache(ColdRead(path, key, work))
        if outcome.error is not None:
            del self._outcomes[key]  # the next attempt meets the disk again
            raise copy(outcome.error)  # its own, whose traceback nobody keeps
        result: T = outcome.result
        return result


FIRST_ATTEMPT = NonblockingLookup()
"""The first attempt of any lookup: nothing was read for it."""


class _Thread(threading.local):
    lookup: NonblockingLookup | None = None


_thread = _Thread()


def must_not_wait() -> bool:
    """Whether this thread is within a lookup that must not wait for a disk."""
    return _thread.lookup is not None


def off_loop(path: str, key: Hashable, work: Callable[[], T]) -> T:
    """Does `work`, which may wait for the disk that holds `path`: now, or in a thread if this one must not wait.

    The key names the work; it holds on to the objects in it, so that no other object gets their identity.
    """
    lookup = _thread.lookup
    return work() if lookup is None else lookup.needs(path, key, work)
