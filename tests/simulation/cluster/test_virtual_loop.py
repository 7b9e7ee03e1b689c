"""The simulated event loop: the seed draws the order, nobody waits for real, and a process may end at any await."""

import asyncio
import itertools
import time
from contextvars import Context
from random import Random

import pytest

from tests.simulation.cluster.loop import LIFE, Deadlock, Life, Spinning, VirtualLoop


def new_loop(seed: int = 1) -> VirtualLoop:
    return VirtualLoop(Random(seed))  # type: ignore[abstract]


def order_of(seed: int) -> tuple[list[int], str]:
    loop, seen = new_loop(seed), []

    async def worker(number: int) -> None:
        await asyncio.sleep(1.0)
        seen.append(number)

    async def run() -> None:
        await asyncio.gather(*(worker(number) for number in range(8)))

    loop.run(run())
    return seen, loop.digest()


def test_the_seed_draws_the_order_of_what_is_ready_and_repeats_it() -> None:
    first, digest = order_of(1)
    assert (first, digest) == order_of(1)
    assert sorted(first) == list(range(8))
    assert len({tuple(order_of(seed)[0]) for seed in range(8)}) > 4


def test_time_jumps_and_nobody_sleeps() -> None:
    loop, began = new_loop(), time.monotonic()

    async def run() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.Event().wait()
        return loop.time()

    start = loop.time()
    assert loop.run(run()) == pytest.approx(start + 3600)
    assert time.monotonic() - began < 2.0


def test_an_exception_that_nobody_takes_names_its_coroutine() -> None:
    async def broken() -> None:
        raise ValueError

    async def run() -> None:
        task: asyncio.Task[None] | None = asyncio.get_running_loop().create_task(broken())
        await asyncio.sleep(1.0)
        assert task is not None
        task = None

    loop = new_loop()
    loop.run(run())
    loop.close()
    (failure,) = loop.failures
    assert failure.startswith("world: Task exception was never retrieved of ")
    assert failure.endswith("broken: ValueError()")


def test_waiting_for_what_never_comes_is_a_deadlock() -> None:
    async def run() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        new_loop().run(run())


def test_steps_without_end_at_one_instant_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.simulation.cluster.loop.STEPS_AT_ONE_INSTANT", 1000)

    async def run() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    with pytest.raises(Spinning):
        new_loop().run(run())


def test_a_crashed_process_runs_nothing_more_and_a_paused_one_goes_on_where_it_was() -> None:
    loop, seen = new_loop(), []

    async def process(name: str) -> None:
        try:
            for step in range(4):
                seen.append((name, step))
                await asyncio.sleep(1.0)
        finally:
            seen.append((name, -1))

    async def run() -> None:
        lives = {}
        for name in ("crashed", "paused"):
            life = lives[name] = Life(name)
            context = Context()
            context.run(LIFE.set, life)
            loop.create_task(process(name), context=context)
        await asyncio.sleep(1.5)
        loop.end(lives["crashed"])
        lives["paused"].paused = True
        await asyncio.sleep(10.0)
        assert [step for name, step in seen if name == "paused"] == [0, 1]
        loop.resume(lives["paused"])
        await asyncio.sleep(10.0)

    loop.run(run())
    assert [step for name, step in seen if name == "crashed"] == [0, 1]
    assert [step for name, step in seen if name == "paused"] == [0, 1, 2, 3, -1]
    with loop.discarding():
        loop.close()
