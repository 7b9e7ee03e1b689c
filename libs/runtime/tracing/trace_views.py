"""Kept traces in the form in which people see them, and the answers of several processes as one. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from libs.lean_dataclass import dataclass
from libs.rpc.contracts.traces import ShownEvent, ShownLink, ShownSpan, ShownSpans, ShownTrace, ShownTraces
from libs.telemetry.tracing.span import Attributes, Span
from libs.telemetry.tracing.trace_ring import TRACES_MAX, KeptTrace, TraceKind, TraceRing

TEXT_MAX = 256
KINDS = tuple(kind.name.lower() for kind in reversed(TraceKind))
"""From what is most worth telling to the least."""
NO_SPANS = ShownSpans("", (), 0)


def shown_traces(ring: TraceRing) -> ShownTraces:
    return ShownTraces(tuple(_shown_trace(trace) for trace in ring))


def shown_spans(process: str, ring: TraceRing, trace_id: str) -> ShownSpans:
    trace = ring.find(int(trace_id, 16))
    if trace is None:
        return NO_SPANS
    return ShownSpans(trace.kind.name.lower(), tuple(_shown_span(process, span) for span in trace.spans), trace.left_out)


def _shown_trace(trace: KeptTrace) -> ShownTrace:
    first = next((span for span in trace.spans if span.parent_id is None), None)
    named = first or min(trace.spans, key=lambda span: span.start_ns)
    return ShownTrace(
        _trace_id(trace.trace_id),
        trace.kind.name.lower(),
        _text(named.name),
        first is not None,
        min(span.start_ns for span in trace.spans),
        max(span.end_ns for span in trace.spans),
        len(trace.spans) + trace.left_out,
        _text(next((span.error for span in trace.spans if span.error is not None), "")),
    )


def _shown_span(process: str, span: Span) -> ShownSpan:
    return ShownSpan(
        process,
        _span_id(span.context.span_id),
        "" if span.parent_id is None else _span_id(span.parent_id),
        _text(span.name),
        span.kind.name.lower(),
        span.start_ns,
        span.end_ns,
        _text(span.error or ""),
        _texts(span.attributes),
        tuple(ShownLink(_trace_id(at.trace_id), _span_id(at.span_id), _texts(attributes)) for at, attributes in span.links),
        tuple(ShownEvent(_text(name), time_ns, _texts(attributes)) for name, time_ns, attributes in span.events),
    )


def _trace_id(value: int) -> str:
    return f"{value:032x}"


def _span_id(value: int) -> str:
    return f"{value:016x}"


def _text(value: object) -> str:
    text = str(value)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"


def _texts(attributes: Attributes) -> tuple[tuple[str, str], ...]:
    return tuple((_text(name), _text(value)) for name, value in attributes.items())


# -- of several processes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TraceLine:
    """A trace, as several processes together know it."""

    trace_id: str
    kind: str
    name: str
    start_ns: int
    end_ns: int
    spans: int
    error: str
    processes: tuple[str, ...]

    @property
    def duration_ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6

    def as_json(self) -> Mapping[str, object]:
        return {
            "trace_id": self.trace_id,
            "kind": self.kind,
            "name": self.name,
            "start": utc(self.start_ns),
            "duration_ms": round(self.duration_ms, 3),
            "spans": self.spans,
            "error": self.error or None,
            "processes": list(self.processes),
        }


def joined_traces(answers: Mapping[str, ShownTraces], traces_max: int = TRACES_MAX) -> list[TraceLine]:
    """By process: its traces. Returns each trace once: failed, then slow ones, the latest first, `traces_max` of each kind."""
    found: dict[str, list[tuple[str, ShownTrace]]] = {}
    for process, answer in answers.items():
        for trace in answer.traces:
            found.setdefault(trace.trace_id, []).append((process, trace))
    lines = sorted((_line(parts) for parts in found.values()), key=lambda line: -line.start_ns)
    return [line for kind in KINDS for line in [each for each in lines if each.kind == kind][:traces_max]]


def _line(parts: Sequence[tuple[str, ShownTrace]]) -> TraceLine:
    traces = [trace for _, trace in parts]
    named = min(traces, key=lambda trace: (not trace.has_root, trace.start_ns))
    return TraceLine(
        named.trace_id,
        worst_kind(trace.kind for trace in traces),
        named.name,
        min(trace.start_ns for trace in traces),
        max(trace.end_ns for trace in traces),
        sum(trace.spans for trace in traces),
        named.error or next((trace.error for trace in traces if trace.error), ""),
        tuple(sorted(process for process, _ in parts)),
    )


def worst_kind(kinds: Iterable[str]) -> str:
    """A kind that is not known here, of another version, counts least."""
    given = set(kinds)
    return next((kind for kind in KINDS if kind in given), KINDS[-1])


@dataclass(frozen=True, slots=True)
class SpanRow:
    """A span in the order of the tree: parents before children, siblings by their start."""

    depth: int
    span: ShownSpan


def tree_of(spans: Iterable[ShownSpan]) -> list[SpanRow]:
    """All spans, each once. A span whose parent is not here, or that is its own ancestor, stands at the top."""
    by_id = {span.span_id: span for span in spans}
    children: dict[str, list[ShownSpan]] = {}
    for span in sorted(by_id.values(), key=lambda span: (span.start_ns, -span.end_ns)):
        children.setdefault(span.parent_id if span.parent_id in by_id else "", []).append(span)
    rows: list[SpanRow] = []
    waiting = [SpanRow(0, span) for span in reversed(children.pop("", []))]
    while waiting or children:
        if not waiting:  # what is left are circles
            waiting = [SpanRow(0, span) for span in reversed(children.pop(next(iter(children))))]
        row = waiting.pop()
        rows.append(row)
        waiting += [SpanRow(row.depth + 1, child) for child in reversed(children.pop(row.span.span_id, []))]
    return rows


@dataclass(frozen=True, slots=True)
class WholeTrace:
    """The spans of a trace in all processes that answered, in the order of the tree."""

    trace_id: str
    kind: str
    rows: Sequence[SpanRow]
    left_out: int
    unanswered: Mapping[str, str]
    """By process: why its spans may be missing."""

    @property
    def start_ns(self) -> int:
        return min(row.span.start_ns for row in self.rows)

    @property
    def end_ns(self) -> int:
        return max(row.span.end_ns for row in self.rows)

    def as_json(self) -> Mapping[str, object]:
        return {
            "trace_id": self.trace_id,
            "kind": self.kind,
            "start": utc(self.start_ns),
            "duration_ms": round((self.end_ns - self.start_ns) / 1e6, 3),
            "spans": [self._span(row) for row in self.rows],
            "spans_left_out": self.left_out,
            "unanswered": dict(self.unanswered),
        }

    def _span(self, row: SpanRow) -> Mapping[str, object]:
        span = row.span
        return {
            "process": span.process,
            "name": span.name,
            "at_ms": round((span.start_ns - self.start_ns) / 1e6, 3),
            "duration_ms": round((span.end_ns - span.start_ns) / 1e6, 3),
            "depth": row.depth,
            "span_id": span.span_id,
            "parent_id": span.parent_id or None,
            "kind": span.kind,
            "start_ns": span.start_ns,
            "end_ns": span.end_ns,
            "error": span.error or None,
            "attributes": dict(span.attributes),
            "links": [
                {"trace_id": link.trace_id, "span_id": link.span_id, "attributes": dict(link.attributes)} for link in span.links
            ],
            "events": [
                {"name": event.name, "time_ns": event.time_ns, "attributes": dict(event.attributes)} for event in span.events
            ],
        }


def joined_spans(trace_id: str, answers: Iterable[ShownSpans], unanswered: Mapping[str, str]) -> WholeTrace | None:
    """None: nobody who answered has a span of it."""
    found = [answer for answer in answers if answer.spans]
    if not found:
        return None
    rows = tree_of(span for answer in found for span in answer.spans)
    kind = worst_kind(answer.kind for answer in found)
    return WholeTrace(trace_id, kind, rows, sum(answer.left_out for answer in found), unanswered)


def utc(ns: int) -> str:
    """As ISO 8601 has it, with milliseconds."""
    return datetime.fromtimestamp(ns // 1_000_000 / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
