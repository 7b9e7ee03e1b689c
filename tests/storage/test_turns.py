"""Loops over very many partitions."""

import asyncio
import time

import pytest

from services.storage.threads.turns import Turns


async def test_a_long_loop_lets_others_go_first_however_long_a_step_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.storage.threads.turns.STRETCH_S", 0.001)
    heard: list[int] = []

    async def listen() -> None:
        while True:
            heard.append(0)
            await asyncio.sleep(0)

    listener = asyncio.create_task(listen())
    turns = Turns()
    for _ in range(10):
        end = time.monotonic() + 0.002
        while time.monotonic() < end:
            pass
        await turns.taken()
    assert len(heard) >= 10
    listener.cancel()


async def test_a_loop_of_quick_steps_does_not_go_around_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.storage.threads.turns.STRETCH_S", 60.0)
    others: list[int] = []
    asyncio.get_running_loop().call_soon(others.append, 1)
    turns = Turns()
    for _ in range(1000):
        await turns.taken()
    assert not others
