"""Decisions that fit no batch, or whose records fit no format: a smaller one is made, or all stays and somebody hears of it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import pytest

from libs.clock import SystemClock
from libs.coordinator.core.decisions import Decision, Expired
from libs.coordinator.core.pending import Group, Marks
from libs.coordinator.core.shard import UNWRITABLE_RETRY_MS
from libs.coordinator.core.states import State
from libs.coordinator.core.tables import Journal
from libs.coordinator.core.timers import RETRY_MS
from libs.coordinator.core.unwritable import TooLarge
from libs.coordinator.log.internal_log import Refused
from libs.coordinator.shards.driver import ShardDriver
from libs.coordinator.shards.steady_time import SteadyTime
from libs.coordinator.shards.unwritable_decisions import UnwritableDecisions
from libs.wire.errors import ErrorCode
from tests.coordinator.memory_log import Partition
from tests.coordinator.one_shard import CoordinatorRequest, OneShard
from tests.coordinator.shelf import NEVER, Event, Put, Read, Recorded, Shelf, Stored
from tests.coordinator.submissions import submit_to_driver
from tests.support.polling import until


class LongShelf(Shelf):
    """The end of a key is told by a long key of its own, or by a short one in its stead."""

    has_smaller = True
    smaller_has_timers = True
    raises = False

    def decide(self, event: Event | Expired, now_ms: int) -> Decision[str, Recorded]:
        if not isinstance(event, Expired):
            return super().decide(event, now_ms)
        if self.raises:
            raise ValueError("does not fit its format")
        return self._ended(event, "x" * 2_000_000)

    def decide_smaller(self, event: Event | Expired, now_ms: int) -> Decision[str, Recorded] | None:
        if not isinstance(event, Expired) or not self.has_smaller:
            return None
        decision = self._ended(event, "short")
        return decision if self.smaller_has_timers else decision._replace(timers={})

    def _ended(self, event: Expired, told: str) -> Decision[str, Recorded]:
        decision = super().decide(event, 1 << 60)
        return decision._replace(records=[*decision.records, Stored(told, 1, NEVER)], room=10)


class Stage(OneShard):
    machine = LongShelf

    def make(self, journal: Journal) -> LongShelf:
        return self.machine(journal)

    def ask(self, event: Event) -> CoordinatorRequest:
        pending = CoordinatorRequest(event)
        self.submit_event(event, pending)
        return pending

    @property
    def keys(self) -> set[str]:
        return set(self.shard.machine.numbers)


@pytest.mark.parametrize("raises", [False, True])
def test_a_timers_decision_that_cannot_be_written_is_replaced(monkeypatch: pytest.MonkeyPatch, raises: bool) -> None:
    monkeypatch.setattr(LongShelf, "raises", raises)
    stage = Stage()
    stage.ask(Put("a", 1, stage.now_ms + 5))
    stage.wait(5)
    assert stage.keys == {"short"}
    (noted,) = stage.shard.unwritable
    assert (noted.event, noted.replaced) == (Expired(("expiry", "a")), True)
    assert isinstance(noted.reason, ValueError if raises else TooLarge)
    stage.fail_over()
    assert stage.keys == {"short"}


def test_the_timer_of_a_replaced_decision_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A smaller decision that sets no timers ends the one that it was made for, as the usual decision does."""
    monkeypatch.setattr(LongShelf, "smaller_has_timers", False)
    stage = Stage()
    stage.ask(Put("a", 1, stage.now_ms + 5))
    stage.wait(5)
    assert stage.shard.next_deadline() is None
    stage.wait(2 * RETRY_MS)
    assert len(stage.shard.unwritable) == 1


def test_without_another_decision_nothing_changes_and_the_timer_comes_due_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LongShelf, "has_smaller", False)
    stage = Stage()
    stage.ask(Put("a", 1, stage.now_ms + 5))
    stage.wait(5)
    assert stage.keys == {"a"}
    assert stage.shard.next_deadline() == stage.now_ms + UNWRITABLE_RETRY_MS
    stage.shard.batch_bytes_max = 3_000_000
    stage.wait(UNWRITABLE_RETRY_MS)
    assert stage.keys == {"x" * 2_000_000}
    assert [noted.replaced for noted in stage.shard.unwritable] == [False]


def test_a_failure_of_the_machine_is_still_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LongShelf, "has_smaller", False)
    monkeypatch.setattr(LongShelf, "raises", True)
    stage = Stage()
    stage.stopped = True
    stage.ask(Put("a", 1, stage.now_ms + 5))
    stage.now_ms += 5
    with pytest.raises(ValueError, match="its format"):
        stage.shard.expire(stage.now_ms)
    assert stage.shard.next_deadline() == stage.now_ms + UNWRITABLE_RETRY_MS


def test_decisions_share_a_batch_that_the_topic_allows() -> None:
    group: Group[Any, Any] = Group(Marks(0, 0), None)
    group.records, group.bytes = [(b"k", b"v")], 900  # type: ignore[list-item]
    assert group.has_room(100, 1000, None)
    assert not group.has_room(101, 1000, None)


# -- the shell ---------------------------------------------------------------------------------------------------------------

Driver: TypeAlias = ShardDriver[Event, str, Recorded]


@pytest.fixture
async def partition() -> Partition:
    return Partition()


@pytest.fixture
async def told() -> UnwritableDecisions:
    return UnwritableDecisions(asyncio.get_running_loop())


@pytest.fixture
async def driver(partition: Partition, told: UnwritableDecisions) -> AsyncIterator[Driver]:
    clock = SystemClock()
    time = SteadyTime(clock, asyncio.get_running_loop().time)
    driver: Driver = ShardDriver("t-0", partition.log(), LongShelf, 1, clock, time, batch_bytes_max=1000, unwritable=told)
    await until(lambda: driver.state is State.SERVING)
    yield driver
    driver.unload()
    await driver.closed()


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    found = []
    for record in caplog.records:
        if record.name == "coordinators":
            found.append((record.message, str(record.__dict__["fields"].get("event", ""))))
    return found


async def test_a_line_and_a_count_tell_of_a_replaced_decision(
    driver: Driver, told: UnwritableDecisions, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await submit_to_driver(driver, Put("a", 1, 1))

    async def is_gone() -> bool:
        return (await submit_to_driver(driver, Read("a"))).reply == "nothing"

    await until(is_gone)
    assert told.counts == {("timer", "replaced"): 1}
    assert lines(caplog) == [("a smaller decision was made", "('expiry', 'a')")]


async def test_a_line_and_a_count_tell_of_a_request_that_is_too_large(
    driver: Driver, told: UnwritableDecisions, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await submit_to_driver(driver, Put("k" * 2000, 1, NEVER))
    assert answer.error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert told.counts == {("request", "given up"): 1}
    assert lines(caplog) == [("a decision cannot be written", "Put")]


async def test_a_line_and_a_count_tell_of_a_batch_that_the_leader_finds_too_large(
    driver: Driver,
    partition: Partition,
    told: UnwritableDecisions,
    caplog: pytest.LogCaptureFixture,
) -> None:
    partition.fate = lambda _: Refused(ErrorCode.MESSAGE_TOO_LARGE)
    answer = await submit_to_driver(driver, Put("a", 1, NEVER))
    assert answer.error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert told.counts == {("batch", "given up"): 1}
    assert [message for message, _ in lines(caplog)] == ["the log refuses a batch as too large"]


def test_the_reason_names_both_sizes() -> None:
    assert str(TooLarge(2000, 1000)) == "its records have 2000 bytes, and a batch may have 1000"
