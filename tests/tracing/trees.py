"""The spans of several processes as trees, for tests."""

from collections.abc import Iterable

from libs.telemetry.tracing.span import Span


def of_trace(spans: Iterable[Span], trace_id: int) -> list[Span]:
    return [span for span in spans if span.context.trace_id == trace_id]


def tree(spans: Iterable[Span]) -> list[str]:
    """The names of one trace's spans, each below its parent, in the order of their starts."""
    spans = list(spans)
    known = {span.context.span_id for span in spans}
    assert len({span.context.trace_id for span in spans}) == 1, "one trace"

    def below(parent_id: int | None, depth: int) -> Iterable[str]:
        children = [span for span in spans if (span.parent_id if span.parent_id in known else None) == parent_id]
        for span in sorted(children, key=lambda each: (each.start_ns, each.name)):
            yield "  " * depth + span.name
            yield from below(span.context.span_id, depth + 1)

    return list(below(None, 0))


def named(spans: Iterable[Span], name: str) -> Span:
    (found,) = [span for span in spans if span.name == name]
    return found


def seconds(span: Span) -> float:
    return (span.end_ns - span.start_ns) / 1e9
