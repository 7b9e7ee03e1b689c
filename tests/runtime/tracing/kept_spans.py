"""Spans of one produce in a gateway and in storage nodes, made by hand."""

from libs.telemetry.tracing.conventions import REASON
from libs.telemetry.tracing.sampling import Reason
from libs.telemetry.tracing.span import Link, Span, SpanContext, SpanKind

START_NS = 1_700_000_000_123_000_000
TRACE, OTHER_TRACE = 0xABC, 0xDEF
TRACE_ID, OTHER_TRACE_ID = f"{TRACE:032x}", f"{OTHER_TRACE:032x}"
MS = 1_000_000


def span(
    span_id: int, parent_id: int | None, name: str, at_ms: float, ms: float, *, trace_id: int = TRACE, error: str | None = None
) -> Span:
    start_ns = START_NS + int(at_ms * MS)
    return Span(
        SpanContext(trace_id, span_id), parent_id, name, SpanKind.INTERNAL, start_ns, start_ns + int(ms * MS), error=error
    )


def gateway_spans() -> list[Span]:
    root = Span(
        SpanContext(TRACE, 1, sampled=False),
        None,
        "orders<script> send",
        SpanKind.SERVER,
        START_NS,
        START_NS + 120 * MS,
        {REASON: Reason.SLOW, "messaging.client.id": "<b>client</b>"},
        links=[Link(SpanContext(OTHER_TRACE, 7))],
    )
    return [root, span(2, 1, "sent", 1, 118)]


def leader_spans() -> list[Span]:
    return [span(4, 3, "replicated", 3, 110), span(3, 2, "append", 2, 115), span(5, 4, "follower 3", 3, 110)]
