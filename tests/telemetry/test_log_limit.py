"""Lines that anyone can cause: at most one an interval, for each key, and none is forgotten in the count."""

import logging

import pytest

from libs.telemetry.limited_lines import LimitedLines
from libs.telemetry.log_burst import LogBurst
from libs.telemetry.log_limit import LogLimit
from libs.telemetry.logs import LONGEST_VALUE
from tests.support.timers import FakeTimers


@pytest.fixture
def timers() -> FakeTimers:
    return FakeTimers()


def test_a_line_an_interval_counts_the_events_since_the_last_one() -> None:
    limit = LogLimit(10.0)
    assert [limit.count(now) for now in (0.0, 1.0, 9.9, 10.0, 11.0, 20.0)] == [1, 0, 0, 3, 0, 2]


def limited(timers: FakeTimers, keys_max: int = 1000) -> LimitedLines:
    return LimitedLines(logging.getLogger("network"), 10.0, timers, keys_max=keys_max)


def told(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [record.fields for record in caplog.records]  # type: ignore[attr-defined]


def test_lines_that_were_withheld_are_counted_when_their_interval_ends_though_no_other_follows(
    caplog: pytest.LogCaptureFixture, timers: FakeTimers
) -> None:
    lines = limited(timers)
    for number in range(4):
        lines.write("a", logging.WARNING, "closed", number=number)
    timers.advance(9.9)
    assert told(caplog) == [{"number": 0, "count": 1}]
    timers.advance(0.1)
    assert told(caplog)[1:] == [{"number": 3, "count": 3, "last_ago_s": 10.0}]
    assert [record.getMessage() for record in caplog.records] == ["closed", "closed"]


def test_each_key_has_a_line_an_interval_and_the_counts_add_up_to_all_events(
    caplog: pytest.LogCaptureFixture, timers: FakeTimers
) -> None:
    lines = limited(timers)
    for _ in range(100):
        for key in "ab":
            lines.write(key, logging.WARNING, "closed", key=key)
        timers.advance(0.5)
    timers.advance(10.0)
    counts = [(line["key"], line["count"]) for line in told(caplog)]
    for key in "ab":
        of_key = [count for wanted, count in counts if wanted == key]
        assert (sum(of_key), len(of_key)) == (100, 6)  # type: ignore[arg-type]


def test_one_timer_serves_all_keys_and_none_runs_while_nothing_is_withheld(
    caplog: pytest.LogCaptureFixture, timers: FakeTimers
) -> None:
    lines = limited(timers)
    for key in range(500):
        lines.write(key, logging.WARNING, "closed")
    assert timers.pending == 0
    for key in range(500):
        lines.write(key, logging.WARNING, "closed")
    assert timers.pending == 1
    timers.advance(10.0)
    assert timers.pending == 0
    assert len(caplog.records) == 1000
    timers.advance(10.0)
    lines.write("later", logging.WARNING, "closed")
    assert len(lines) == 1  # what ended is forgotten


def test_keys_beyond_the_bound_share_a_line_and_are_counted(caplog: pytest.LogCaptureFixture, timers: FakeTimers) -> None:
    lines = limited(timers, keys_max=2)
    for key in range(1000):
        lines.write(key, logging.WARNING, "closed", host=key)
    timers.advance(10.0)
    assert [(line["host"], line["count"], line.get("keys")) for line in told(caplog)] == [
        (0, 1, None),
        (1, 1, None),
        (2, 1, "others"),
        (999, 997, "others"),
    ]


def test_a_withheld_line_keeps_no_more_of_a_value_than_is_shown(caplog: pytest.LogCaptureFixture, timers: FakeTimers) -> None:
    lines = limited(timers)
    for _ in range(2):
        lines.write("a", logging.WARNING, "closed", client_id="x" * 32_000)
    timers.advance(10.0)
    assert len(str(told(caplog)[1]["client_id"])) == LONGEST_VALUE + 1


def test_a_line_whose_timer_is_late_is_counted_by_the_next_one(caplog: pytest.LogCaptureFixture, timers: FakeTimers) -> None:
    lines = limited(timers)
    for _ in range(3):
        lines.write("a", logging.WARNING, "closed")
    timers.now += 30.0  # the loop was busy: its timers have not run
    lines.write("a", logging.WARNING, "closed")
    timers.advance(10.0)
    assert [line["count"] for line in told(caplog)] == [1, 2, 1]


def test_of_a_burst_of_lines_the_first_are_info_and_the_others_are_counted_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    timers = FakeTimers()
    timers.advance(0.25)
    burst = LogBurst(logging.getLogger("network"), "leading", timers, lines_max=2, interval_s=1.0)
    for partition in range(5):
        burst.write(partition=partition)
    timers.advance(0.99)
    assert len(caplog.records) == 2
    assert timers.pending == 1
    timers.advance(0.01)
    timers.advance(0.25)
    burst.write(partition=5)
    shown = [record.fields for record in caplog.records]  # type: ignore[attr-defined]
    assert shown == [{"partition": 0}, {"partition": 1}, {"passed_over": 3}, {"partition": 5}]
    assert timers.pending == 0
