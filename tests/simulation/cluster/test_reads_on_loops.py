"""Reads that may wait for a disk: a thread does them, or the run has a violation."""

import asyncio
from contextvars import Context
from types import SimpleNamespace

import pytest

from tests.simulation.cluster.environment import SimulatedOffload
from tests.simulation.cluster.loop import LIFE, Life
from tests.simulation.cluster.processes import StorageProcess
from tests.simulation.cluster.world import World


@pytest.fixture
def serving() -> StorageProcess:
    """A storage process that serves, as far as its reads are concerned."""
    process = StorageProcess(World(1), 1)
    process.life, process.what = Life("storage-1#1"), SimpleNamespace(ready=lambda: (True, ""))
    return process


def violations_of_reading(process: StorageProcess, *, by_thread: bool, life: Life | None) -> list[str]:
    disk = process.disk
    disk.make_directories("/data")
    fd = disk.open_append("/data/1.log", create=True)
    disk.pwritev(fd, [b"abc"], 0)

    async def read() -> None:
        if by_thread:
            assert await SimulatedOffload(process.slowness, 1).submit(lambda: disk.pread(fd, 3, 0)) == b"abc"
        else:
            assert disk.pread(fd, 3, 0) == b"abc"

    async def work() -> None:
        context = Context()
        context.run(LIFE.set, life)
        await asyncio.get_running_loop().create_task(read(), context=context)

    process.world.loop.run(work())
    with process.world.loop.discarding():
        process.world.loop.close()
    return process.world.violations


def test_a_read_on_an_event_loop_is_a_violation(serving: StorageProcess) -> None:
    (violation,) = violations_of_reading(serving, by_thread=False, life=serving.life)
    assert "storage-1 reads data/1.log on its event loop" in violation


def test_a_read_by_a_thread_is_none(serving: StorageProcess) -> None:
    assert violations_of_reading(serving, by_thread=True, life=serving.life) == []


def test_a_read_by_a_check_is_none(serving: StorageProcess) -> None:
    assert violations_of_reading(serving, by_thread=False, life=None) == []


def test_a_read_before_the_process_serves_is_none(serving: StorageProcess) -> None:
    serving.what = SimpleNamespace(ready=lambda: (False, "it starts"))
    assert violations_of_reading(serving, by_thread=False, life=serving.life) == []
