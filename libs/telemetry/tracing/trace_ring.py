"""The last traces of a process, in memory. Pure.

Failed, slow and sampled traces are kept apart, so that a flood of one kind washes out no other. All is bounded: traces of a kind,
spans of a trace, spans of a kind.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final

from libs.telemetry.tracing.conventions import REASON
from libs.telemetry.tracing.sampling import Reason
from libs.telemetry.tracing.span import Span

TRACES_MAX = 100
"""Of each kind."""
SPANS_PER_TRACE_MAX = 200
SPANS_MAX = 2_000
"""Of each kind, over its traces: about 2 MB."""


class TraceKind(IntEnum):
    """What is most worth telling of a trace. A trace goes up as later spans tell more of it, and never down."""

    SAMPLED = 0
    SLOW = 1
    FAILED = 2


KIND_OF: Final[Mapping[object, TraceKind]] = {Reason.SLOW: TraceKind.SLOW, Reason.FAILED: TraceKind.FAILED}
"""By the attribute `REASON` of a span."""


def kind_of(span: Span) -> TraceKind:
    """Spans that no process decided on in advance, and that tell no reason, belong to a slow request."""
    if span.error is not None:
        return TraceKind.FAILED
    if (kind := KIND_OF.get(span.attributes.get(REASON))) is not None:
        return kind
    return TraceKind.SAMPLED if span.context.sampled else TraceKind.SLOW


class KeptTrace:
    """The spans of one trace that this process made."""

    __slots__ = ("kind", "left_out", "spans", "trace_id")

    def __init__(self, trace_id: int) -> None:
        self.trace_id = trace_id
        self.kind = TraceKind.SAMPLED
        self.spans: list[Span] = []
        self.left_out = 0
        """The spans beyond `SPANS_PER_TRACE_MAX`."""


class TraceRing:
    """A `SpanSink` that keeps the last traces. Of each kind, the trace that began first is forgotten first."""

    def __init__(
        self, *, traces_max: int = TRACES_MAX, spans_per_trace_max: int = SPANS_PER_TRACE_MAX, spans_max: int = SPANS_MAX
    ) -> None:
        self._traces_max, self._spans_per_trace_max, self._spans_max = traces_max, spans_per_trace_max, spans_max
        self._traces: dict[TraceKind, dict[int, KeptTrace]] = {kind: {} for kind in TraceKind}
        self._spans: dict[TraceKind, int] = dict.fromkeys(TraceKind, 0)

    def offer(self, spans: Sequence[Span]) -> None:
        for span in spans:
            self._keep(span)

    def find(self, trace_id: int) -> KeptTrace | None:
        return next((traces[trace_id] for traces in self._traces.values() if trace_id in traces), None)

    def __iter__(self) -> Iterator[KeptTrace]:
        """Failed traces first, then slow ones; of each kind, the latest first."""
        for kind in reversed(TraceKind):
            yield from reversed(self._traces[kind].values())

    def __len__(self) -> int:
        """The number of spans."""
        return sum(self._spans.values())

    def _keep(self, span: Span) -> None:
        trace_id = span.context.trace_id
        trace = self.find(trace_id)
        if trace is None:
            trace = self._traces[TraceKind.SAMPLED][trace_id] = KeptTrace(trace_id)
        kind = max(trace.kind, kind_of(span))
        if kind is not trace.kind:
            self._take_out(trace)
            trace.kind = kind
            self._traces[kind][trace_id] = trace
            self._spans[kind] += len(trace.spans)
        if len(trace.spans) < self._spans_per_trace_max:
            trace.spans.append(span)
            self._spans[kind] += 1
        else:
            trace.left_out += 1
        traces = self._traces[kind]
        while len(traces) > self._traces_max or (self._spans[kind] > self._spans_max and len(traces) > 1):
            self._take_out(next(iter(traces.values())))

    def _take_out(self, trace: KeptTrace) -> None:
        del self._traces[trace.kind][trace.trace_id]
        self._spans[trace.kind] -= len(trace.spans)
