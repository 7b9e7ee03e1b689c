"""Small pieces of work are done in few threads, and in more of them only for a disk that keeps each waiting."""

import asyncio
import threading
from collections.abc import Callable
from itertools import count

import pytest

from services.storage.threads import offload
from services.storage.threads.offload import BatchedOffload, ThreadOffload


class Crew:
    """Pieces that take their time, and how many were at work at once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._at_work = 0
        self.most = 0

    def piece(self) -> None:
        with self._lock:
            self._at_work += 1
            self.most = max(self.most, self._at_work)
        threading.Event().wait(self._seconds)
        with self._lock:
            self._at_work -= 1


async def _most_at_once(crew: Crew, bunches: BatchedOffload, pieces: int) -> int:
    try:
        await asyncio.gather(*[bunches.submit(crew.piece) for _ in range(pieces)])
    finally:
        bunches.close()
    return crew.most


@pytest.fixture
def disk_reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From then on every piece has read something from the disk."""

    def begin() -> None:
        counter = count()
        monkeypatch.setattr(offload, "_blocks_read", lambda: next(counter))

    return begin


async def test_pieces_that_wait_for_a_slow_disk_get_more_threads(disk_reads: Callable[[], None]) -> None:
    disk_reads()
    assert await _most_at_once(Crew(0.01), BatchedOffload(ThreadOffload("t", 4), 1, threads_max=4), 400) == 4


async def test_pieces_that_read_nothing_from_a_disk_get_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offload, "_blocks_read", lambda: 0)
    assert await _most_at_once(Crew(0.003), BatchedOffload(ThreadOffload("t", 4), 1, threads_max=4), 200) == 1


async def test_pieces_of_a_quick_disk_get_no_more_threads(disk_reads: Callable[[], None]) -> None:
    disk_reads()
    assert await _most_at_once(Crew(0.0), BatchedOffload(ThreadOffload("t", 4), 1, threads_max=4), 400) == 1


async def test_never_more_threads_than_there_may_be(disk_reads: Callable[[], None]) -> None:
    disk_reads()
    assert await _most_at_once(Crew(0.01), BatchedOffload(ThreadOffload("t", 4), 2), 300) == 2
