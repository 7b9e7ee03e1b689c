"""Ports for tests: blocks below the range that the kernel hands out by itself, held by a file lock against other test runs."""

import fcntl
import os
import random
import tempfile
from pathlib import Path
from typing import TextIO

from services.local.probe import is_free

FIRST, LAST, BLOCK = 20_000, 32_000, 100  # the kernel's own range begins at 32768


class Reservation:
    """`first` and the `count - 1` ports after it. Held until `release()` or the end of this process."""

    def __init__(self, first: int, locks: list[TextIO]) -> None:
        self.first = first
        self._locks = locks

    def release(self) -> None:
        for lock in self._locks:
            lock.close()
        self._locks.clear()


_starts: list[int] = []
"""Blocks in the order in which this process tries them: what it used last comes last, since a client may still call there."""


def reserve_ports(count: int) -> Reservation:
    """Starts to look anywhere, so that runs that begin together rarely meet."""
    if not _starts:
        _starts.extend(range(FIRST, LAST, BLOCK))
        random.Random(os.getpid()).shuffle(_starts)
    directory = Path(tempfile.gettempdir()) / f"penstock-test-ports-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    blocks = -(-count // BLOCK)
    for start in [start for start in _starts if start + blocks * BLOCK <= LAST]:
        if (locks := _lock_blocks(directory, start, blocks)) is None:
            continue
        if all(is_free(port) for port in range(start, start + count)):
            for used in range(start, start + blocks * BLOCK, BLOCK):
                _starts.remove(used)
                _starts.append(used)
            return Reservation(start, locks)
        Reservation(start, locks).release()
    raise AssertionError("no block of ports is free")


def _lock_blocks(directory: Path, start: int, blocks: int) -> list[TextIO] | None:
    locks: list[TextIO] = []
    for block in range(blocks):
        lock = open(directory / f"{start + block * BLOCK}.lock", "w", encoding="utf-8")  # noqa: SIM115 (closing it is what frees the block)
        locks.append(lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            Reservation(start, locks).release()
            return None
    return locks
