"""A span for each micro-batch, and one in each of some traces of its records."""

from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context

from libs.telemetry.tracing.conventions import KAFKA, MESSAGING_SYSTEM, OPERATION_NAME, OPERATION_TYPE, PROCESS
from libs.telemetry.tracing.traceparent import parse_traceparent


class BatchSpans:
    """Makes spans after the fact: a micro-batch is known when it has finished."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._provider = TracerProvider(resource=Resource.create({"service.name": "penstock-pipeline"}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("penstock.pipeline")

    def record(self, job: str, start_ns: int, end_ns: int, traceparents: Iterable[str], attributes: Mapping[str, Any]) -> None:
        """The batch is a trace of its own, since its records have many. Each of those that are named here gets a span too, below
        what wrote the record, so that a trace leads from the record to the lake."""
        contexts = [context for each in traceparents if (context := context_of(each)) is not None]
        batch = self._tracer.start_span(
            f"{job} micro-batch",
            kind=SpanKind.CONSUMER,
            links=[Link(context) for context in contexts],
            start_time=start_ns,
            attributes=dict(attributes),
        )
        batch.end(end_ns)
        processed = {MESSAGING_SYSTEM: KAFKA, OPERATION_NAME: PROCESS, OPERATION_TYPE: PROCESS, **attributes}
        for context in contexts:
            span = self._tracer.start_span(
                f"process {job}",
                context=set_span_in_context(NonRecordingSpan(context)),
                kind=SpanKind.CONSUMER,
                links=[Link(batch.get_span_context())],
                start_time=start_ns,
                attributes=processed,
            )
            span.end(end_ns)

    def flush(self) -> None:
        self._provider.force_flush()

    def close(self) -> None:
        """Exports what is left."""
        self._provider.shutdown()


def otlp_spans(endpoint: str) -> BatchSpans:
    """Spans to an OpenTelemetry collector: `endpoint` is its URL for traces over HTTP, e.g. http://collector:4318/v1/traces."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return BatchSpans(OTLPSpanExporter(endpoint=endpoint))


def context_of(traceparent: str) -> SpanContext | None:
    """Of the span that wrote a record. None: W3C Trace Context calls it invalid."""
    try:
        context = parse_traceparent(traceparent.encode())
    except ValueError:
        return None
    flags = TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT)
    return SpanContext(context.trace_id, context.span_id, is_remote=True, trace_flags=flags)
