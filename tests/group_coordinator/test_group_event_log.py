"""The log of group events: a storm of groups does not flood it, and dropped lines are counted."""

import logging
from collections.abc import Callable

import pytest

from services.group_coordinator.telemetry.group_event_log import EVERY_S, GROUP_LINES_MAX, LINES_MAX, GroupEventLog


class EventLog:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "groups")
        self._caplog = caplog
        self._due: list[Callable[[], None]] = []
        self.lines = GroupEventLog(self._later)

    def _later(self, wait_s: float, over: Callable[[], None]) -> None:
        assert wait_s == EVERY_S
        self._due.append(over)

    def second_over(self) -> None:
        (over,) = self._due
        self._due.clear()
        over()

    @property
    def idle(self) -> bool:
        return not self._due

    def take(self) -> list[tuple[str, dict[str, object]]]:
        result = [(record.message, record.__dict__["fields"]) for record in self._caplog.records]
        self._caplog.clear()
        return result


@pytest.fixture
def event_log(caplog: pytest.LogCaptureFixture) -> EventLog:
    return EventLog(caplog)


def test_a_group_and_kind_of_event_has_three_lines_a_second_and_the_rest_is_counted(event_log: EventLog) -> None:
    for member in range(200):
        event_log.lines.write("member removed", "g", member_id=f"m{member}")
    event_log.lines.write("group rebalances", "g")
    removed = [("member removed", {"group": "g", "member_id": f"m{member}"}) for member in range(GROUP_LINES_MAX)]
    assert event_log.take() == [*removed, ("group rebalances", {"group": "g"})]
    event_log.second_over()
    assert event_log.take() == [("passed over", {"passed_over": "member removed", "count": 200 - GROUP_LINES_MAX, "group": "g"})]
    event_log.lines.write("member removed", "g", member_id="m200")
    assert event_log.take() == [("member removed", {"group": "g", "member_id": "m200"})]


def test_dropped_lines_are_there_at_debug(event_log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "groups")
    for member in range(20):
        event_log.lines.write("member removed", "g", member_id=f"m{member}")
    assert [(record.message, record.levelname) for record in caplog.records] == [
        *[("member removed", "INFO")] * GROUP_LINES_MAX,
        *[("member removed", "DEBUG")] * (20 - GROUP_LINES_MAX),
    ]


def test_thousands_of_groups_are_a_bounded_number_of_lines_and_all_are_counted(event_log: EventLog) -> None:
    for number in range(5_000):
        event_log.lines.write("group rebalances", f"g{number}")
        event_log.lines.write("group stable", f"g{number}")
    written = event_log.take()
    event_log.second_over()
    passed = event_log.take()
    assert len(written) == LINES_MAX
    assert len(passed) <= LINES_MAX + 2
    counts = [fields["count"] for _, fields in passed if isinstance(fields["count"], int)]
    assert len(written) + sum(counts) == 10_000
    assert [fields["groups"] for _, fields in passed if "groups" in fields] == ["others", "others"]


def test_nothing_is_due_while_nothing_happens(event_log: EventLog) -> None:
    assert event_log.idle
    event_log.lines.write("group stable", "g")
    event_log.second_over()
    assert event_log.idle
    assert [event for event, _ in event_log.take()] == ["group stable"]


def test_the_level_of_the_log_changes_nothing_that_is_done(event_log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    """A simulated run is replayed with more said of it, and must be the same run."""
    caplog.set_level(logging.WARNING, "groups")
    event_log.lines.write("group stable", "g")
    assert not event_log.idle
    event_log.second_over()
    assert event_log.idle
    assert not event_log.take()
