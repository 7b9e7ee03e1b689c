"""Metrics of the spans that a process makes."""

from libs.telemetry.definitions import CounterDefinition, MetricSet
from libs.telemetry.tracing.recorder import SpanRecorder


class SpanMeters(MetricSet):
    """Those of the recorders of a process. Services that share a process have one each."""

    def __init__(self) -> None:
        super().__init__()
        self._recorders: list[SpanRecorder] = []

    def watch(self, recorder: SpanRecorder) -> None:
        self._recorders.append(recorder)

    @CounterDefinition(
        name="penstock_trace_spans",
        help="Spans of requests that are sampled, slow or failed.",
        healthy="follows the load at `PENSTOCK_TRACE_SAMPLE_RATIO`, and rises with slow requests",
    )
    def spans(self) -> int:
        return sum(recorder.recorded for recorder in self._recorders)

    @CounterDefinition(
        name="penstock_trace_contexts",
        help="Trace contexts (`traceparent`) that this process read from the first records of batches.",
        healthy="follows the load of clients that trace",
    )
    def contexts(self) -> int:
        return sum(recorder.contexts for recorder in self._recorders)

    @CounterDefinition(
        name="penstock_trace_contexts_malformed",
        help="First records with a `traceparent` that W3C Trace Context calls invalid, or whose bytes are no record. "
        "The batch is treated as one without a context.",
        healthy="0",
        otherwise="A client writes a wrong header. Look at the `traceparent` of its records.",
    )
    def contexts_malformed(self) -> int:
        return sum(recorder.malformed_contexts for recorder in self._recorders)

    @CounterDefinition(
        name="penstock_trace_contexts_skipped",
        help="Batches whose first record was not looked at, since the process had no look left in that second.",
        healthy="rises under load, and harms nothing",
    )
    def contexts_skipped(self) -> int:
        return sum(recorder.looks.refused for recorder in self._recorders)

    @CounterDefinition(
        name="penstock_trace_spans_beyond_cap",
        help="Spans that were not made: beyond `PENSTOCK_TRACE_SPANS_PER_SECOND`, or its half for sampled requests.",
        healthy="0, or rises while much is slow: the first traces of each second are kept",
        otherwise="Lower the ratio, or raise the threshold of slow requests or the cap.",
    )
    def spans_beyond_cap(self) -> int:
        return sum(recorder.refused for recorder in self._recorders)
