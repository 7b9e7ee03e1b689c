"""The recorder of a process's spans, and their trees."""

import pytest

from libs.clock import SystemClock
from libs.telemetry.tracing.recorder import SPANS_OF_A_TRACE, SpanRecorder, Tracing
from libs.telemetry.tracing.sampling import FAILED_PER_SECOND, TraceRules
from libs.telemetry.tracing.span import Span, SpanContext, SpanKind
from tests.support.span_ring import SpanRing

ROOT = SpanContext(1, 2)


def span(number: int) -> Span:
    return Span(SpanContext(1, number), None, "produce", SpanKind.SERVER, 0, 1)


def test_spans_beyond_the_cap_are_counted_and_not_taken() -> None:
    ring = SpanRing()
    now = 0.0
    recorder = SpanRecorder(Tracing(TraceRules(spans_per_second=3), ring), "gateway-1-1", SystemClock(), lambda: now)
    recorder.record([span(1), span(2)])
    recorder.record([span(3), span(4)])
    recorder.record([span(5)])
    assert ([each.context.span_id for each in ring], recorder.recorded, recorder.refused) == ([1, 2, 5], 3, 2)
    now = 1.0
    recorder.record([span(6), span(7), span(8)])
    assert recorder.recorded == 6


def test_no_work_begins_for_a_trace_beyond_the_cap() -> None:
    rules = TraceRules(spans_per_second=2 * SPANS_OF_A_TRACE)
    recorder = SpanRecorder(Tracing(rules, SpanRing()), "gateway-1-1", SystemClock(), lambda: 0.0)
    recorder.record([span(number) for number in range(SPANS_OF_A_TRACE)])
    assert recorder.admits(0.0)
    recorder.record([span(1)])
    assert not recorder.admits(0.0)
    assert recorder.refused == SPANS_OF_A_TRACE


def recorder_of(ring: SpanRing, cap: int) -> SpanRecorder:
    return SpanRecorder(Tracing(TraceRules(spans_per_second=cap), ring), "gateway-1-1", SystemClock(), lambda: 0.0)


def test_traces_that_were_decided_in_advance_leave_half_of_the_cap_to_slow_and_failed_ones() -> None:
    recorder = recorder_of(SpanRing(), 4 * SPANS_OF_A_TRACE)
    trace = [span(number) for number in range(SPANS_OF_A_TRACE)]
    for _ in range(2):
        assert recorder.admits(0.0, in_advance=True)
        recorder.record(trace)
    assert not recorder.admits(0.0, in_advance=True)
    for _ in range(2):
        assert recorder.admits(0.0)
        recorder.record(trace)
    assert not recorder.admits(0.0)


@pytest.mark.parametrize("in_advance", [True, False])
@pytest.mark.parametrize("cap", range(1, SPANS_OF_A_TRACE + 1))
def test_a_small_cap_takes_the_first_spans_of_a_trace(cap: int, in_advance: bool) -> None:
    ring = SpanRing()
    recorder = recorder_of(ring, cap)
    assert recorder.admits(0.0, in_advance=in_advance)
    recorder.record([span(number) for number in range(SPANS_OF_A_TRACE)])
    assert [each.context.span_id for each in ring] == [*range(cap)]
    assert (recorder.recorded, recorder.refused) == (cap, SPANS_OF_A_TRACE - cap)
    assert not recorder.admits(0.5, in_advance=in_advance)


def test_without_a_cap_nothing_is_admitted() -> None:
    recorder = recorder_of(SpanRing(), 0)
    assert not recorder.admits(0.0)
    assert not recorder.traces_failure(0.0, client_caused=False)


def test_only_failures_that_clients_cause_are_limited_by_rate() -> None:
    recorder = recorder_of(SpanRing(), 200)
    assert sum(recorder.traces_failure(0.0, client_caused=True) for _ in range(100)) == FAILED_PER_SECOND
    assert all(recorder.traces_failure(0.0, client_caused=False) for _ in range(100))


def test_loop_times_become_wall_times() -> None:
    clock = SystemClock()
    recorder = SpanRecorder(Tracing(TraceRules(), SpanRing()), "gateway-1-1", clock, lambda: 5.0)
    before = clock.wall_ns()
    tree = recorder.tree(ROOT, None)
    assert before <= tree.wall_ns(5.0) <= clock.wall_ns()
    assert tree.wall_ns(5.25) - tree.wall_ns(5.0) == 250_000_000


def test_steps_are_children_of_the_root_or_of_another_step() -> None:
    tree = SpanRecorder(Tracing(TraceRules(), SpanRing()), "storage-1-1", SystemClock(), lambda: 5.0).tree(ROOT, 7)
    tree.root("append t", 1.0, 2.0, {"a": 1})
    waited = tree.child("replication wait", 1.2, 2.0)
    tree.child("follower 2", 1.2, 1.1, parent_id=waited)
    assert [each.parent_id for each in tree.spans] == [7, 2, waited]
    assert {each.context.trace_id for each in tree.spans} == {1}
    assert all(each.end_ns >= each.start_ns for each in tree.spans)


def test_all_spans_of_a_tree_are_sampled_as_its_root_is() -> None:
    for sampled in (False, True):
        recorder = SpanRecorder(Tracing(TraceRules(), SpanRing()), "storage-1-1", SystemClock(), lambda: 5.0)
        tree = recorder.tree(ROOT._replace(sampled=sampled), 7)
        tree.root("append t", 1.0, 2.0, {})
        tree.child("check", 1.0, 1.5)
        assert [each.context.sampled for each in tree.spans] == [sampled] * 2
