"""The ring of a process's last traces: what is kept apart, and what bounds it."""

from libs.telemetry.tracing.conventions import REASON
from libs.telemetry.tracing.sampling import Reason
from libs.telemetry.tracing.span import Span, SpanContext, SpanKind
from libs.telemetry.tracing.trace_ring import TraceKind, TraceRing


def span(trace_id: int, span_id: int = 1, *, error: str | None = None, sampled: bool = True, reason: str = "") -> Span:
    attributes = {REASON: reason} if reason else {}
    return Span(SpanContext(trace_id, span_id, sampled), None, "t send", SpanKind.SERVER, 5, 9, attributes, error)


def test_spans_of_one_trace_are_kept_together_whenever_they_come() -> None:
    ring = TraceRing()
    ring.offer([span(1, 1), span(2, 1)])
    ring.offer([span(1, 2)])
    found = ring.find(1)
    assert found is not None
    assert [each.context.span_id for each in found.spans] == [1, 2]
    assert ring.find(3) is None


def test_a_flood_of_sampled_traces_washes_out_no_slow_and_no_failed_one() -> None:
    ring = TraceRing(traces_max=10)
    ring.offer([span(1, error="NOT_LEADER_OR_FOLLOWER")])
    ring.offer([span(2, reason=Reason.SLOW)])
    ring.offer([span(3, sampled=False)])
    ring.offer([span(trace_id) for trace_id in range(100, 200)])
    assert [trace.trace_id for trace in ring] == [1, 3, 2, *range(199, 189, -1)]
    assert [trace.kind for trace in ring][:3] == [TraceKind.FAILED, TraceKind.SLOW, TraceKind.SLOW]


def test_a_trace_rises_with_what_later_spans_tell_of_it_and_never_falls() -> None:
    ring = TraceRing(traces_max=1)
    ring.offer([span(1)])
    ring.offer([span(1, 2, error="REQUEST_TIMED_OUT")])
    ring.offer([span(1, 3)])
    ring.offer([span(2), span(3)])
    assert [(trace.trace_id, trace.kind, len(trace.spans)) for trace in ring] == [
        (1, TraceKind.FAILED, 3),
        (3, TraceKind.SAMPLED, 1),
    ]


def test_spans_of_a_trace_and_of_a_kind_are_bounded() -> None:
    ring = TraceRing(traces_max=100, spans_per_trace_max=5, spans_max=12)
    for trace_id in range(1, 4):
        ring.offer([span(trace_id, span_id) for span_id in range(1, 10)])
    assert [(trace.trace_id, len(trace.spans), trace.left_out) for trace in ring] == [(3, 5, 4), (2, 5, 4)]
    assert len(ring) == 10


def test_the_only_trace_of_a_kind_stays_even_if_it_is_larger_than_the_bound() -> None:
    ring = TraceRing(spans_per_trace_max=50, spans_max=10)
    ring.offer([span(1, span_id) for span_id in range(1, 40)])
    assert len(ring) == 39
