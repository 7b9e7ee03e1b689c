"""What a shard decides is counted, whatever asked for it."""

from collections.abc import Iterable
from typing import Any

from libs.runtime.shards.decisions import Decision, Expired, KeyValue
from libs.runtime.shards.timers import TimerKey
from libs.wire.messages.heartbeat import HeartbeatRequest
from services.group_coordinator.core.asked import Asked
from services.group_coordinator.core.classic.changes import GroupForgotten, RebalanceBegun
from services.group_coordinator.core.records import ClassicGroupChanged, ClassicGroupRemoved, OffsetRemoved
from services.group_coordinator.metered import Metered
from services.group_coordinator.meters import CLASSIC, Meters

ASKED = Asked(HeartbeatRequest(), 4, "", "", "")


class Scripted:
    """Decides what it was told to."""

    def __init__(self) -> None:
        self.records: list[Any] = []

    def decide(self, event: Asked | Expired, now_ms: int) -> Decision[Any, Any]:
        return Decision(records=self.records)

    def replay(self, record: Any) -> None: ...

    def encode(self, record: Any) -> KeyValue | None:
        return None

    def decode(self, key: bytes, value: bytes | None) -> Any:
        return None

    def timers(self, now_ms: int) -> Iterable[tuple[TimerKey, int]]:
        return ()


def begun(group: str) -> RebalanceBegun:
    return RebalanceBegun(group, "somebody joined", 0, 0, 0)


def ended(group: str) -> ClassicGroupChanged:
    return ClassicGroupChanged(group, 1, "consumer", "range", "m", 0, ())


class Shard:
    def __init__(self) -> None:
        self.meters = Meters()
        self._machine = Scripted()
        self._metered = Metered(self._machine, self.meters)

    def decides(self, now_ms: int, *records: Any, event: Asked | Expired = ASKED) -> None:
        self._machine.records = list(records)
        self._metered.decide(event, now_ms)

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
    shard.decides(3_000, begun("a"))
    shard.decides(6_000, ended("a"))
    shard.decides(9_000, ended("a"))
    assert shard.rebalances == (2, 1, 5.0)


def test_one_of_a_group_that_went_has_no_end() -> None:
    shard = Shard()
    for gone in (GroupForgotten("a"), ClassicGroupRemoved("a")):
        shard.decides(1_000, begun("a"))
        shard.decides(2_000, gone)
        shard.decides(3_000, ended("a"))
    assert shard.rebalances == (2, 0, 0.0)


def test_only_offsets_that_expire_have_expired() -> None:
    shard = Shard()
    shard.decides(0, OffsetRemoved("a", "t", 0), OffsetRemoved("a", "t", 1), event=Expired("check"))
    shard.decides(0, OffsetRemoved("a", "t", 2))
    assert shard.meters.expired == 2
