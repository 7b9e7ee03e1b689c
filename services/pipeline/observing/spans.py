"""A span for each micro-batch, with links to the traces of records in it."""

from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags


class BatchSpans:
    """Makes spans after the fact: a micro-batch is known when it has finished."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._provider = TracerProvider(resource=Resource.create({"service.name": "penstock-pipeline"}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("penstock.pipeline")

    def record(self, job: str, start_ns: int, end_ns: int, contexts: Iterable[str], attributes: Mapping[str, Any]) -> None:
        links = [Link(context_of(each)) for each in contexts]
        span = self._tracer.start_span(
            f"{job} micro-batch", kind=SpanKind.CONSUMER, links=links, start_time=start_ns, attributes=dict(attributes)
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


def context_of(traceparent: str) -> SpanContext:
    """`traceparent` as W3C Trace Context has it: version, trace id, span id, flags."""
    _, trace, span, flags = traceparent.split("-")
    return SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
