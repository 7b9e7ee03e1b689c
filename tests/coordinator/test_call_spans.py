"""The spans of a call at its coordinator: which calls have some, and that gateway and coordinator agree on ids without a word."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.clock import SystemClock
from libs.coordinator.core.pending import Group, Marks, Pending
from libs.coordinator.tracing.append_traces import AppendTraces
from libs.coordinator.tracing.call_spans import AppendTimes, CallSpans
from libs.rpc.contracts.coordinators import ASK_GROUPS
from libs.rpc.messages.envelope import EMPTY
from libs.rpc.server.call import Call, Peer
from libs.telemetry.tracing.ids import RpcRequest, SentRequest, derived_context, process_name
from libs.telemetry.tracing.recorder import SpanRecorder, Tracing
from libs.telemetry.tracing.rpc_context import CONTEXTS_MAX, pack_context
from libs.telemetry.tracing.sampling import FAILED_PER_SECOND, TraceRules
from libs.telemetry.tracing.span import Span, SpanContext
from libs.wire.api_keys import ApiKey
from libs.wire.apis import GROUP_APIS
from libs.wire.errors import ErrorCode
from tests.support.failing_spans import FailingSpans
from tests.support.span_ring import SpanRing
from tests.tracing.trees import named, seconds, tree

COORDINATOR = process_name("group_coordinator", 3, 30)
GATEWAY = Peer("gateway", 2, 20, "test", 1, "test", None, "somewhere", 1)
ASKED = SpanContext(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
COMMIT, JOIN = GROUP_APIS[ApiKey.OFFSET_COMMIT], GROUP_APIS[ApiKey.JOIN_GROUP]


class Coordinator:
    """Call spans with a clock that a test sets, and what they made."""

    def __init__(self, ring: SpanRing | None = None, **rules: Any) -> None:
        self.now, self.ring = 100.0, ring if ring is not None else SpanRing()
        recorder = SpanRecorder(Tracing(TraceRules(**rules), self.ring), COORDINATOR, SystemClock(), lambda: self.now)
        self.spans = CallSpans(recorder, lambda: self.now)

    @property
    def made(self) -> Sequence[Span]:
        return list(self.ring)

    def call(self, trace: SpanContext | None = None, request_id: int = 7) -> Call:
        packed = pack_context(trace) if trace is not None else None
        return Call(None, GATEWAY, request_id, ASK_GROUPS, [], EMPTY, 0.0, packed, 0, self.now)


def test_a_sampled_call_is_below_its_gateways_span_and_its_append_below_it() -> None:
    coordinator = Coordinator()
    call = coordinator.call(ASKED)
    sent = coordinator.spans.of_append(call)
    coordinator.now += 0.003
    assert not coordinator.spans.answered(call, COMMIT, 5, 0, AppendTimes(100.001, 100.002))
    assert tree(coordinator.made) == ["OffsetCommit decided", "  append"]
    decided, append = coordinator.made
    assert (decided.parent_id, decided.context.trace_id) == (ASKED.span_id, ASKED.trace_id)
    assert append.context == sent, "the leader was told of it before it was made"
    assert decided.context == coordinator.spans.of_decision(call)
    assert seconds(decided) == pytest.approx(0.003, abs=1e-6)


def test_a_quick_call_that_nobody_asked_a_trace_of_has_none() -> None:
    coordinator = Coordinator()
    call = coordinator.call()
    assert coordinator.spans.of_append(call) is coordinator.spans.of_decision(call) is None
    coordinator.spans.answered(call, COMMIT, 5, 0, AppendTimes(100.0, 100.0))
    assert not coordinator.made


def test_a_slow_call_has_the_ids_that_its_gateway_derives_too() -> None:
    """From half of the gateway's threshold on, since the gateway's own time is added."""
    coordinator = Coordinator(slow_ms=100)
    call = coordinator.call(request_id=9)
    coordinator.now += 0.06
    coordinator.spans.answered(call, COMMIT, 5, 0, None)
    (decided,) = coordinator.made
    gateways = derived_context(RpcRequest(process_name("gateway", 2, 20), COORDINATOR, 9))
    assert (decided.context.trace_id, decided.parent_id) == (gateways.trace_id, gateways.span_id)
    assert not decided.context.sampled


def test_a_slow_append_links_to_the_spans_that_its_leader_derives() -> None:
    coordinator = Coordinator(slow_ms=100)
    call = coordinator.call()
    coordinator.now += 0.07
    leader = SentRequest(process_name("storage", 1, 10), 33)
    coordinator.spans.answered(call, COMMIT, 5, 0, AppendTimes(100.001, 100.06, None, lambda: leader))
    (link,) = named(coordinator.made, "append").links
    assert link.context == derived_context(RpcRequest(COORDINATOR, *leader))


def test_an_append_that_was_not_slow_at_its_leader_has_no_link() -> None:
    coordinator = Coordinator(slow_ms=100)
    call = coordinator.call()
    coordinator.now += 0.07
    coordinator.spans.answered(call, COMMIT, 5, 0, AppendTimes(100.05, 100.06, None, lambda: SentRequest("storage-1-10", 33)))
    assert not named(coordinator.made, "append").links


def test_an_append_that_another_request_is_traced_for_links_to_that_trace() -> None:
    coordinator = Coordinator()
    one, other = coordinator.call(ASKED), coordinator.call(SpanContext(3, 4), request_id=8)
    sent = coordinator.spans.of_append(one)
    for call in (one, other):
        coordinator.spans.answered(call, COMMIT, 5, 0, AppendTimes(100.0, 100.001, sent))
    own, others = [[link.context for link in span.links] for span in coordinator.made if span.name == "append"]
    assert (own, others) == ([], [sent])


def test_a_join_that_waits_for_other_members_is_not_slow() -> None:
    coordinator = Coordinator()
    call = coordinator.call()
    coordinator.now += 60
    coordinator.spans.answered(call, JOIN, 5, 0, None)
    assert not coordinator.made


def test_a_failed_call_has_a_trace_and_its_gateway_is_told() -> None:
    coordinator = Coordinator()
    assert coordinator.spans.answered(coordinator.call(), COMMIT, 5, ErrorCode.UNKNOWN_MEMBER_ID, None)
    (decided,) = coordinator.made
    assert decided.error == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize("error", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.NOT_COORDINATOR])
def test_an_error_of_the_usual_course_is_no_failure(error: ErrorCode) -> None:
    coordinator = Coordinator()
    assert not coordinator.spans.answered(coordinator.call(), COMMIT, 5, error, None)
    assert not coordinator.made


def test_failures_that_a_client_causes_at_will_are_limited_by_rate() -> None:
    coordinator = Coordinator()
    traced = [coordinator.spans.answered(coordinator.call(), COMMIT, 5, ErrorCode.ILLEGAL_GENERATION, None) for _ in range(1000)]
    assert sum(traced) == FAILED_PER_SECOND


def test_failures_of_the_cluster_itself_are_limited_by_the_cap_alone() -> None:
    coordinator = Coordinator(spans_per_second=100)
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    traced = [coordinator.spans.answered(coordinator.call(), COMMIT, 5, error, None) for _ in range(1000)]
    assert FAILED_PER_SECOND < sum(traced) == len(coordinator.made) <= 100


def test_without_room_for_spans_nothing_is_made() -> None:
    coordinator = Coordinator(spans_per_second=0)
    call = coordinator.call(ASKED)
    coordinator.now += 10
    assert not coordinator.spans.answered(call, COMMIT, 5, ErrorCode.UNKNOWN_MEMBER_ID, None)
    assert not coordinator.made


def test_an_append_that_was_on_its_way_when_the_call_came_counts_from_the_calls_arrival() -> None:
    coordinator = Coordinator()
    call = coordinator.call(ASKED)
    coordinator.now += 0.01
    coordinator.spans.answered(call, COMMIT, 5, 0, AppendTimes(99.0, 100.005))
    assert seconds(named(coordinator.made, "append")) == pytest.approx(0.005, abs=1e-6)


def grouped(pending: Pending[Any, Any], *, append: bool) -> Group[Any, Any] | None:
    return pending.group_for(10 if append else 0, Marks(0, 0), 1 << 20, append=append)


@given(st.lists(st.sampled_from(["decide", "read", "send", "commit"]), max_size=60))
def test_each_context_leaves_with_the_append_of_its_own_decision_and_with_no_other(steps: list[str]) -> None:
    """The dumb model: a dict of groups."""
    pending: Pending[Any, Any] = Pending()
    traces, expected = AppendTraces(), dict[Group[Any, Any], list[SpanContext]]()
    for number, step in enumerate(steps, 1):
        context = SpanContext(number, number)
        if step in ("decide", "read"):
            group = grouped(pending, append=step == "decide")
            waiting = sum(map(len, expected.values()))
            traces.note(pending, context)
            if group is not None and not (pending.sent and group is pending.groups[0]) and waiting < CONTEXTS_MAX:
                expected.setdefault(group, []).append(context)
        elif step == "send" and pending.groups and not pending.sent:
            pending.sent = True
            assert traces.take(pending) == expected.pop(pending.groups[0], [])
        elif step == "commit" and pending.sent:
            pending.commit()


def test_a_failure_costs_the_trace_and_not_the_answer() -> None:
    coordinator = Coordinator(spans := FailingSpans())
    assert not coordinator.spans.answered(coordinator.call(ASKED), COMMIT, 5, 0, None)
    assert spans.failed == 1
