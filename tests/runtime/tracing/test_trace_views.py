"""Traces as people see them: one line each, and the stages of one, of all processes together."""

from typing import Any

from libs.rpc.contracts.traces import ShownSpan, ShownTraces
from libs.runtime.tracing.trace_page import list_page, trace_page
from libs.runtime.tracing.trace_views import (
    NO_SPANS,
    TEXT_MAX,
    WholeTrace,
    joined_spans,
    joined_traces,
    shown_spans,
    shown_traces,
    tree_of,
)
from libs.telemetry.tracing.span import Span, SpanContext, SpanKind
from libs.telemetry.tracing.trace_ring import TraceRing
from tests.runtime.tracing.kept_spans import MS, OTHER_TRACE_ID, TRACE_ID, gateway_spans, leader_spans, span


def ring(*spans: Span) -> TraceRing:
    kept = TraceRing()
    kept.offer(spans)
    return kept


def whole(*, unanswered: dict[str, str] | None = None) -> WholeTrace:
    gateway = shown_spans("gateway-1", ring(*gateway_spans()), TRACE_ID)
    leader = shown_spans("storage-2", ring(*leader_spans()), TRACE_ID)
    joined = joined_spans(TRACE_ID, [leader, gateway, NO_SPANS], unanswered or {})
    assert joined is not None
    return joined


def test_a_trace_of_two_processes_is_one_line_named_by_its_root() -> None:
    answers = {"storage-2": shown_traces(ring(*leader_spans())), "gateway-1": shown_traces(ring(*gateway_spans()))}
    [line] = joined_traces(answers)
    assert (line.name, line.kind, line.spans, line.processes) == ("orders<script> send", "slow", 5, ("gateway-1", "storage-2"))
    assert line.as_json() == {
        "trace_id": TRACE_ID,
        "kind": "slow",
        "name": "orders<script> send",
        "start": "2023-11-14T22:13:20.123Z",
        "duration_ms": 120.0,
        "spans": 5,
        "error": None,
        "processes": ["gateway-1", "storage-2"],
    }


def test_failed_traces_come_first_then_slow_ones_and_the_latest_of_a_kind() -> None:
    kept = ring(
        span(1, None, "a", 0, 1, trace_id=1),
        span(1, None, "b", 5, 1, trace_id=2),
        span(1, None, "c", 2, 1, trace_id=3, error="REQUEST_TIMED_OUT"),
        *gateway_spans(),
    )
    lines = joined_traces({"gateway-1": shown_traces(kept)})
    assert [line.name for line in lines] == ["c", "orders<script> send", "b", "a"]
    assert lines[0].error == "REQUEST_TIMED_OUT"
    assert len(joined_traces({"gateway-1": shown_traces(kept)}, traces_max=1)) == 3
    assert joined_traces({"gateway-1": ShownTraces(())}) == []


def test_stages_stand_below_the_stage_that_they_belong_to() -> None:
    trace = whole()
    assert [(row.depth, row.span.process, row.span.name) for row in trace.rows] == [
        (0, "gateway-1", "orders<script> send"),
        (1, "gateway-1", "sent"),
        (2, "storage-2", "append"),
        (3, "storage-2", "replicated"),
        (4, "storage-2", "follower 3"),
    ]
    shown: Any = trace.as_json()
    assert [(each["at_ms"], each["duration_ms"]) for each in shown["spans"]][-1] == (3.0, 110.0)
    assert shown["spans"][0]["links"] == [{"trace_id": OTHER_TRACE_ID, "span_id": f"{7:016x}", "attributes": {}}]
    assert shown["duration_ms"] == 120.0


def test_spans_without_a_parent_here_and_circles_are_shown_once_each() -> None:
    def bare(span_id: str, parent_id: str, start_ns: int = 0) -> ShownSpan:
        return ShownSpan("p", span_id, parent_id, span_id, "internal", start_ns, start_ns, "", (), (), ())

    orphan, first, second, alone = bare("a", "gone", 5), bare("b", "c"), bare("c", "b"), bare("d", "d")
    rows = tree_of([orphan, first, second, alone, orphan])
    assert [(row.span.span_id, row.depth) for row in rows] == [("a", 0), ("b", 0), ("c", 1), ("d", 0)]


def test_a_trace_that_nobody_keeps_is_none() -> None:
    assert shown_spans("gateway-1", TraceRing(), TRACE_ID) == NO_SPANS
    assert joined_spans(TRACE_ID, [NO_SPANS], {}) is None


def test_long_values_are_cut() -> None:
    long = Span(SpanContext(1, 1), None, "n", SpanKind.SERVER, 0, MS, {"client": "x" * 40_000})
    [shown] = shown_spans("gateway-1", ring(long), f"{1:032x}").spans
    assert len(shown.attributes[0][1]) == TEXT_MAX + 1


def test_pages_show_what_clients_named_and_run_none_of_it() -> None:
    lines = joined_traces({"gateway-1": shown_traces(ring(*gateway_spans()))})
    pages = [
        list_page("gateway-1", lines, {"storage-3": "<i>away</i>"}),
        trace_page(whole(unanswered={"storage-3": "<i>away</i>"})),
    ]
    for page in pages:
        assert "<script>" not in page
        assert "<i>" not in page
        assert "orders&lt;script&gt; send" in page
        assert "storage-3: &lt;i&gt;away&lt;/i&gt;" in page
    assert "<b>" not in pages[1]
    assert f'href="/debug/traces/{OTHER_TRACE_ID}"' in pages[1]
    assert f'href="/debug/traces/{TRACE_ID}"' in pages[0]
    assert "follower 3" in pages[1]
    assert "No trace yet" in list_page("gateway-1", [], {})
