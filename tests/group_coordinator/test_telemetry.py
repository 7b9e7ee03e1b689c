"""Telemetry: decisions are counted and logged once they are committed."""

from collections.abc import Iterable
from typing import Any

import pytest

from libs.coordinator.core.decisions import Decision, Expired, KeyValue
from libs.coordinator.core.observed_machine import ObservedMachine
from libs.coordinator.core.tables import Journal
from libs.coordinator.core.timers import TimerKey
from libs.coordinator.process.findings import LOOKED_AT_MAX, MARGIN_MS
from libs.wire.messages.heartbeat import HeartbeatRequest
from libs.wire.record_batches.keyed_batches import TransactionalBatch
from services.group_coordinator.core.model.group_events import (
    GroupDeleted,
    GroupEvent,
    OffsetsExpired,
    ProtocolChanged,
    RebalanceBegan,
    RebalanceEnded,
)
from services.group_coordinator.core.model.group_kind import CLASSIC, CONSUMER
from services.group_coordinator.core.model.requests import RequestEvent
from services.group_coordinator.telemetry.group_event_log import GroupEventLog
from services.group_coordinator.telemetry.group_events import REBALANCE_MS_MAX, GroupEventRecorder
from services.group_coordinator.telemetry.group_meters import GroupMeters

ASKED = RequestEvent(HeartbeatRequest(), 4, "", "", "")


class Scripted:
    """A machine that returns prepared decisions."""

    def __init__(self) -> None:
        self.events: list[GroupEvent] = []

    def decide(self, event: RequestEvent | Expired, now_ms: int) -> Decision[Any, Any]:
        return Decision(events=self.events)

    def decide_smaller(self, event: RequestEvent | Expired, now_ms: int) -> Decision[Any, Any] | None:
        return None

    def replay(self, record: Any) -> None: ...

    def encode(self, record: Any) -> KeyValue | None:
        return None

    def decode(self, key: bytes, value: bytes | None, transaction: TransactionalBatch | None) -> Any:
        return None

    def timers(self, now_ms: int) -> Iterable[tuple[TimerKey, int]]:
        return ()


def begun(group: str, *, again: bool = False, timeout_ms: int = 60_000) -> RebalanceBegan:
    return RebalanceBegan(group, CLASSIC, "somebody joined", 1, 0, again, timeout_ms)


def ended(group: str) -> RebalanceEnded:
    return RebalanceEnded(group, CLASSIC, 1, 1)


class Shard:
    def __init__(self) -> None:
        self.meters = GroupMeters()
        self.journal = Journal()
        self._machine = Scripted()
        self.recorder = GroupEventRecorder(self.meters, GroupEventLog(lambda wait_s, over: None))
        self._metered = ObservedMachine(self._machine, self.journal, self.recorder.record)

    def decides(self, now_ms: int, *events: GroupEvent, commits: bool = True) -> None:
        self._machine.events = list(events)
        before = self.journal.mark
        self._metered.decide(ASKED, now_ms)
        if commits:
            self.journal.forget_to(self.journal.mark)
        else:
            self.journal.revert_to(before)

    @property
    def rebalances(self) -> tuple[int, int, float]:
        """Begun, ended, seconds."""
        times = self.meters.rebalance_times[CLASSIC]
        return self.meters.rebalances[CLASSIC], times.count, times.total_s


def test_a_rebalance_lasts_until_the_group_is_in_the_log_again() -> None:
    shard = Shard()
    shard.decides(1_000, begun("a"))
    shard.decides(2_000, begun("b"))
    shard.decides(4_000, ended("a"))
    assert shard.rebalances == (2, 1, 3.0)


def test_one_that_begins_anew_lasts_from_its_first_beginning() -> None:
    shard = Shard()
    shard.decides(1_000, begun("a"))
    shard.decides(3_000, begun("a", again=True))
    shard.decides(6_000, ended("a"))
    assert shard.rebalances == (2, 1, 5.0)


def test_one_whose_end_nobody_saw_does_not_make_the_next_longer() -> None:
    shard = Shard()
    shard.decides(1_000, begun("a"))
    shard.decides(7_000, begun("a"))
    shard.decides(9_000, ended("a"))
    assert shard.rebalances == (2, 1, 2.0)


def test_reverted_events_are_not_counted() -> None:
    shard = Shard()
    shard.decides(1_000, begun("a"), commits=False)
    shard.decides(3_000, begun("a"))
    shard.decides(4_000, ended("a"), commits=False)
    shard.decides(5_000, ended("a"))
    assert shard.rebalances == (1, 1, 2.0)


def test_nothing_is_remembered_of_groups_that_went() -> None:
    shard = Shard()
    for gone in (GroupDeleted("a", "DeleteGroups"), ProtocolChanged("a", CLASSIC, CONSUMER, 1)):
        shard.decides(1_000, begun("a"))
        shard.decides(2_000, gone)
        shard.decides(3_000, begun("a", again=True))
        shard.decides(4_000, ended("a"))
    assert shard.rebalances == (4, 2, 2.0)


def test_a_rebalance_is_overdue_once_it_takes_longer_than_its_timeout_and_a_margin() -> None:
    shard = Shard()
    shard.decides(1_000, begun("quick", timeout_ms=10_000))
    shard.decides(2_000, begun("slow"))
    shard.decides(3_000, begun("again", timeout_ms=10_000))
    shard.decides(40_000, begun("again", again=True, timeout_ms=10_000))
    assert shard.recorder.oldest_ms() == 1_000
    assert not list(shard.recorder.overdue(11_000 + MARGIN_MS))
    assert [each.name for each in shard.recorder.overdue(11_001 + MARGIN_MS)] == ["quick"]
    shard.decides(50_000, ended("quick"))
    assert [(each.name, each.since_ms) for each in shard.recorder.overdue(62_001 + MARGIN_MS)] == [
        ("slow", 2_000),
        ("again", 3_000),
    ]


def test_a_timeout_of_weeks_hides_no_rebalance() -> None:
    shard = Shard()
    shard.decides(0, begun("a", timeout_ms=2**31 - 1))
    assert not list(shard.recorder.overdue(REBALANCE_MS_MAX + MARGIN_MS))
    assert list(shard.recorder.overdue(REBALANCE_MS_MAX + MARGIN_MS + 1))


def test_the_look_for_overdue_rebalances_has_a_bound_and_finds_the_longest() -> None:
    shard = Shard()
    for each in range(3 * LOOKED_AT_MAX):
        shard.decides(each, begun(f"g{each}"))
    shard.decides(3 * LOOKED_AT_MAX, begun("g0"))
    found = [each.name for each in shard.recorder.overdue(1_000_000)]
    assert found == [f"g{each}" for each in range(1, LOOKED_AT_MAX + 1)], "the new rebalance of g0 is the youngest"


def test_offsets_that_expired_are_counted() -> None:
    shard = Shard()
    shard.decides(0, OffsetsExpired("a", 2, 1, 7), OffsetsExpired("b", 1, 0, 0))
    assert shard.meters.expired == 4


def test_a_shard_goes_on_when_its_events_cannot_be_reported(caplog: pytest.LogCaptureFixture) -> None:
    shard = Shard()
    shard.decides(0, "no fact")  # type: ignore[arg-type]
    assert [record.message for record in caplog.records] == ["committed events cannot be observed"]
    shard.decides(0, begun("a"))
    assert shard.rebalances == (1, 0, 0.0)
