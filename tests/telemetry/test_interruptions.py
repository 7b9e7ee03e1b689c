"""What keeps an event loop from its work is measured while a process is watched, and costs nothing after that."""

import gc
from time import perf_counter

import pytest

from libs.telemetry import interruptions
from libs.telemetry.definitions import Rows
from libs.telemetry.interruptions import Interruptions
from tests.support.polling import until

HELD_S = 0.05


def pauses(rows: Rows) -> dict[str, int]:
    return {labels[0]: durations.count for labels, durations in rows}


async def test_a_turn_that_takes_long_is_seen_by_the_next_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruptions, "EVERY_S", 0.001)
    watched = Interruptions()
    watched.start()
    try:
        end = perf_counter() + HELD_S
        while perf_counter() < end:
            pass
        await until(lambda: watched.lag.count >= 3)
        assert watched.lag.total_s > HELD_S - 0.01
    finally:
        watched.stop()


async def test_collections_are_timed_by_generation() -> None:
    watched = Interruptions()
    watched.start()
    try:
        before = pauses(watched.pauses())
        gc.collect(1)
        gc.collect(2)
        after = pauses(watched.pauses())
        assert (after["1"] - before["1"], after["2"] - before["2"]) == (1, 1)
    finally:
        watched.stop()
    gc.collect(2)
    assert pauses(watched.pauses()) == after
    assert not [each for each in gc.callbacks if getattr(each, "__self__", None) is watched]


async def test_to_stop_twice_does_no_harm() -> None:
    watched = Interruptions()
    watched.stop()
    watched.start()
    watched.stop()
    watched.stop()
