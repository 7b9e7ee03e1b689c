"""Lines that anyone can cause: at most one an interval, for each key, and none is forgotten in the count."""

import logging
from collections.abc import Callable

import pytest

from libs.telemetry.log_burst import LogBurst
from libs.telemetry.log_limit import LogLimit, LogLimits


def test_a_line_an_interval_counts_the_events_since_the_last_one() -> None:
    limit = LogLimit(10.0)
    assert [limit.count(now) for now in (0.0, 1.0, 9.9, 10.0, 11.0, 20.0)] == [1, 0, 0, 3, 0, 2]


def test_each_key_has_a_limit_of_its_own() -> None:
    limits = LogLimits(10.0)
    assert [limits.count(key, now) for key, now in (("a", 0.0), ("b", 0.0), ("a", 1.0), ("b", 10.0), ("a", 10.0))] == [
        1,
        1,
        0,
        1,
        2,
    ]


def test_of_too_many_keys_the_one_that_was_not_used_for_longest_is_forgotten() -> None:
    limits = LogLimits(10.0, keys_max=2)
    for key in ("a", "b", "a", "c"):
        limits.count(key, 0.0)
    assert limits.count("a", 1.0) == 0
    assert limits.count("b", 1.0) == 1


def test_of_a_burst_of_lines_the_first_are_info_and_the_others_are_counted_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    timers: list[tuple[float, Callable[[], None]]] = []
    logger = logging.getLogger("libs.example")
    burst = LogBurst(logger, "leading", lambda *timer: timers.append(timer), lines_max=2, interval_s=1.0)
    for partition in range(5):
        burst.write(0.25, partition=partition)
    [(wait_s, told)] = timers
    assert wait_s == 1.0
    told()
    burst.write(1.5, partition=5)
    shown = [record.fields for record in caplog.records]  # type: ignore[attr-defined]
    assert shown == [{"partition": 0}, {"partition": 1}, {"passed_over": 3}, {"partition": 5}]
    assert len(timers) == 1
