"""The queue of effects: once a turn, in order, and one partition's mistake is not another's."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from services.storage.core.effects import HIGH_WATERMARK_ROSE, EffectHandlers
from services.storage.partition.effects import EffectQueue


class Waiters:
    """Notes who is called, and may fail."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.fails_for = ""
        self.fails_in = "answer_produces"

    def queue(self) -> EffectQueue:
        return EffectQueue(EffectHandlers(*[self._handler(name) for name in EffectHandlers._fields]))

    def _handler(self, name: str) -> Any:
        def carry_out(partition: Any) -> None:
            if (partition.name, name) == (self.fails_for, self.fails_in):
                raise RuntimeError("planned")
            self.calls.append((partition.name, name))

        return carry_out


def partition(name: str, effects: int = HIGH_WATERMARK_ROSE) -> Any:
    left = [effects]
    return SimpleNamespace(name=name, replica=SimpleNamespace(take_effects=lambda: left.pop() if left else 0))


async def test_effects_noted_in_a_turn_wait_for_its_end() -> None:
    waiters = Waiters()
    queue = waiters.queue()
    queue.begin_turn()
    queue.add(partition("a"))
    await asyncio.sleep(0)
    assert waiters.calls == []
    queue.end_turn()
    assert waiters.calls == [("a", "answer_produces"), ("a", "wake_fetches"), ("a", "notify_pulls")]


async def test_effects_noted_outside_of_a_turn_come_with_the_next_iteration_of_the_loop() -> None:
    waiters = Waiters()
    queue = waiters.queue()
    queue.add(partition("a"))
    queue.add(partition("b"))
    assert waiters.calls == []
    await asyncio.sleep(0)
    assert [name for name, what in waiters.calls if what == "answer_produces"] == ["a", "b"]


async def test_effects_that_effects_bring_about_belong_to_the_same_turn() -> None:
    waiters = Waiters()
    queue = waiters.queue()
    first = partition("a")
    first.replica.take_effects = lambda: queue.add(partition("b")) or HIGH_WATERMARK_ROSE  # type: ignore[func-returns-value]
    queue.begin_turn()
    queue.add(first)
    queue.end_turn()
    assert {name for name, _ in waiters.calls} == {"a", "b"}


async def test_a_mistake_of_one_handler_leaves_other_handlers_and_partitions_theirs(caplog: pytest.LogCaptureFixture) -> None:
    waiters = Waiters()
    waiters.fails_for = "a"
    queue = waiters.queue()
    queue.begin_turn()
    queue.add(partition("a"))
    queue.add(partition("b"))
    with caplog.at_level(logging.ERROR):
        queue.end_turn()
    assert [what for name, what in waiters.calls if name == "a"] == ["wake_fetches", "notify_pulls"]
    assert [what for name, what in waiters.calls if name == "b"] == ["answer_produces", "wake_fetches", "notify_pulls"]
    assert "effect not carried out" in caplog.text
