"""Spans made by hand, for tests of what becomes of them."""

from libs.telemetry.tracing.exporting.collector import Origin
from libs.telemetry.tracing.span import Link, Span, SpanContext, SpanEvent, SpanKind

GATEWAY, STORAGE = Origin("gateway", 1, "0.1.0"), Origin("storage", 2, "0.1.0")
START_NS = 1_700_000_000_000_000_000


def root_span(trace_id: int = 0xABC, *, error: str | None = None) -> Span:
    return Span(
        SpanContext(trace_id, 1),
        None,
        "orders send",
        SpanKind.SERVER,
        START_NS,
        START_NS + 5_000_000,
        {"messaging.system": "kafka", "messaging.kafka.offset": 7, "penstock.shortcut": True},
        error,
        events=[SpanEvent("throttled", START_NS + 1_000_000, {"ms": 4})],
    )


def child_span(trace_id: int = 0xABC) -> Span:
    linked = Link(SpanContext(0xDEF, 9), {"why": "same batch"})
    return Span(SpanContext(trace_id, 2), 1, "append", SpanKind.INTERNAL, START_NS + 1_000, START_NS + 1_500, links=[linked])
