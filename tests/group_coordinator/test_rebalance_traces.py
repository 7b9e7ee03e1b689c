"""Traces of rebalances: when there is one, whom it shows, and its bounds."""

import tracemalloc
from collections.abc import Callable

from libs.clock import SystemClock
from libs.telemetry.tracing.conventions import BEGUN_AGAIN, CLIENT_ID, GROUP_MEMBER
from libs.telemetry.tracing.recorder import SpanRecorder, Tracing
from libs.telemetry.tracing.sampling import TraceRules
from libs.telemetry.tracing.span import Span, SpanContext
from libs.telemetry.tracing.span_tree import ATTRIBUTE_CHARS_MAX
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from services.group_coordinator.core.model.group_events import (
    TOO_SLOW,
    GroupDeleted,
    MemberRemoved,
    RebalanceBegan,
    RebalanceEnded,
)
from services.group_coordinator.core.model.group_kind import CLASSIC
from services.group_coordinator.protocol.member_waits import MemberWait
from services.group_coordinator.telemetry.rebalance_traces import GROUPS_MAX, WAITS_MAX, RebalanceTraces
from tests.support.span_ring import SpanRing
from tests.tracing.trees import named, seconds, tree

BEGAN = RebalanceBegan("g", CLASSIC, "member b joined", 1, 1, again=False)
ENDED = RebalanceEnded("g", CLASSIC, 2, 2)
REQUEST = SpanContext(5, 6)


class Rebalances:
    """Traces with a clock that a test sets. `answer_turn` is what happens after the answers of a turn."""

    def __init__(self) -> None:
        self.now, self.ring, self._soon = 100.0, SpanRing(), list[Callable[[], None]]()
        recorder = SpanRecorder(Tracing(TraceRules(sample_ratio=0.0), self.ring), "coordinator", SystemClock(), lambda: self.now)
        self.traces = RebalanceTraces(recorder, lambda: self.now, self._soon.append)

    @property
    def spans(self) -> list[Span]:
        return list(self.ring)

    def waits(self, api_key: ApiKey, member: str, waited_s: float, error: int = 0) -> None:
        span = REQUEST if member == "b" else None
        self.traces.waited(MemberWait("g", api_key, member, "client", self.now - waited_s, self.now, error, span))

    def ends(self) -> None:
        self.traces.observe([ENDED])

    def answer_turn(self) -> None:
        soon, self._soon[:] = list(self._soon), []
        for call in soon:
            call()


def test_the_last_member_to_join_is_seen_to_have_let_the_others_wait() -> None:
    group = Rebalances()
    group.traces.observe([BEGAN])
    group.now += 5
    group.waits(ApiKey.JOIN_GROUP, "a", 5)
    group.waits(ApiKey.JOIN_GROUP, "b", 0.01)
    group.now += 1
    group.ends()
    group.waits(ApiKey.SYNC_GROUP, "a", 1)
    group.answer_turn()
    assert tree(group.spans) == ["rebalance g", "  join", "    JoinGroup a", "    JoinGroup b", "  sync", "    SyncGroup a"]
    assert [round(seconds(named(group.spans, name)), 2) for name in ("rebalance g", "join", "sync")] == [6.0, 5.0, 1.0]
    assert [round(seconds(named(group.spans, f"JoinGroup {member}")), 2) for member in "ab"] == [5.0, 0.01]
    assert [link.context for link in named(group.spans, "JoinGroup b").links] == [REQUEST]


def test_a_member_that_did_not_come_back_in_time_is_named() -> None:
    group = Rebalances()
    group.traces.observe([BEGAN])
    group.now += 60
    group.traces.observe([MemberRemoved("g", "a", None, TOO_SLOW), MemberRemoved("other", "x", None, TOO_SLOW)])
    group.ends()
    group.answer_turn()
    (root,) = group.spans
    assert [(event.name, event.attributes[GROUP_MEMBER]) for event in root.events] == [("member removed", "a")]


def test_a_rebalance_that_begins_anew_counts_from_its_first_begin() -> None:
    group = Rebalances()
    group.traces.observe([BEGAN])
    group.now += 2
    group.waits(ApiKey.JOIN_GROUP, "a", 2, ErrorCode.REBALANCE_IN_PROGRESS)
    group.traces.observe([BEGAN._replace(again=True)])
    group.now += 3
    group.ends()
    group.answer_turn()
    root = named(group.spans, "rebalance g")
    assert (round(seconds(root), 2), root.attributes[BEGUN_AGAIN]) == (5.0, 1)
    assert named(group.spans, "JoinGroup a").error == "REBALANCE_IN_PROGRESS"


def test_a_quick_rebalance_and_one_of_a_deleted_group_have_no_trace() -> None:
    group = Rebalances()
    group.traces.observe([BEGAN])
    group.now += 0.05
    group.ends()
    group.answer_turn()
    group.traces.observe([BEGAN, GroupDeleted("g", "")])
    group.now += 10
    group.ends()
    group.answer_turn()
    assert not group.spans


def test_members_and_groups_that_are_followed_have_bounds() -> None:
    group = Rebalances()
    group.traces.observe([BEGAN._replace(group=f"group-{number}") for number in range(GROUPS_MAX)])
    group.traces.observe([BEGAN])
    for number in range(WAITS_MAX + 100):
        group.waits(ApiKey.JOIN_GROUP, f"m{number}", 1)
    group.now += 10
    group.traces.observe([ENDED._replace(group="group-0")])
    group.ends()
    group.answer_turn()
    assert not [span for span in group.spans if span.name == "rebalance group-0"], "the oldest gave way"
    assert len([span for span in group.spans if span.name.startswith("JoinGroup")]) == WAITS_MAX


def test_long_names_that_clients_choose_are_cut_while_a_rebalance_is_followed() -> None:
    group = Rebalances()
    group.traces.observe([BEGAN])
    tracemalloc.start()
    for number in range(WAITS_MAX):
        member, client = f"{number:03}" + "m" * 32_000, f"{number:03}" + "c" * 32_000
        group.traces.waited(MemberWait("g", ApiKey.JOIN_GROUP, member, client, group.now, group.now, 0, None))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < WAITS_MAX * 4_000
    group.now += 10
    group.ends()
    group.answer_turn()
    waits = [span for span in group.spans if span.name.startswith("JoinGroup ")]
    assert {len(span.name) for span in waits} == {len("JoinGroup ") + ATTRIBUTE_CHARS_MAX}
    assert {len(str(span.attributes[CLIENT_ID])) for span in waits} == {ATTRIBUTE_CHARS_MAX}
