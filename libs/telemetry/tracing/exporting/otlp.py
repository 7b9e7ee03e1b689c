"""OTLP over HTTP with protobuf, by OpenTelemetry's own types and exporter.

`ReadableSpan`s are made ready, which costs a tenth of `start_span`. The exporter reads the headers, certificates, compression and
timeout of its requests from OpenTelemetry's variables.
"""

import logging
from collections.abc import Sequence
from typing import Final

import requests
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from libs.telemetry.tracing import span as spans
from libs.telemetry.tracing.conventions import ERROR_TYPE
from libs.telemetry.tracing.exporting.collector import ExportFailed, FinishedSpan, Origin, ResourceSettings

SCOPE = InstrumentationScope("penstock")
KINDS = {kind: SpanKind[kind.name] for kind in spans.SpanKind}
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
ANSWER_BYTES_MAX: Final = 65_536
"""The most of an answer that is read. Its status says all; a connection whose answer is read to the end is used again."""


class _LastLine(logging.Handler):
    """OpenTelemetry's exporter tells why it failed by a log line alone."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


class OtlpCollector:
    """A collector behind `endpoint`, the whole URL of its traces."""

    def __init__(self, endpoint: str, resources: ResourceSettings) -> None:
        self._exporter = trace_exporter.OTLPSpanExporter(endpoint=endpoint, session=_session())
        self._resources = resources
        self._resource_of: dict[Origin, Resource] = {}
        self._told = _LastLine()
        logger = logging.getLogger(trace_exporter.__name__)
        logger.addHandler(self._told)
        logger.propagate = False

    def send(self, batch: Sequence[FinishedSpan]) -> None:
        self._told.text = ""
        if self._exporter.export([self._readable(*each) for each in batch]) is not SpanExportResult.SUCCESS:
            raise ExportFailed(self._told.text or "refused")

    def close(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _readable(self, origin: Origin, span: spans.Span) -> ReadableSpan:
        resource = self._resource_of.get(origin)
        if resource is None:
            resource = self._resource_of[origin] = Resource(dict(self._resources.of(origin)))
        trace_id = span.context.trace_id
        parent = None if span.parent_id is None else SpanContext(trace_id, span.parent_id, is_remote=False, trace_flags=_SAMPLED)
        failed = span.error is not None
        return ReadableSpan(
            name=span.name,
            context=_context(span.context),
            parent=parent,
            resource=resource,
            attributes={**span.attributes, ERROR_TYPE: span.error} if failed else span.attributes,
            events=[Event(each.name, each.attributes, each.time_ns) for each in span.events],
            links=[Link(_context(each.context), each.attributes) for each in span.links],
            kind=KINDS[span.kind],
            status=Status(StatusCode.ERROR, span.error) if failed else Status(),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=SCOPE,
        )


def _session() -> requests.Session:
    """OpenTelemetry's own session reads an answer to its end, if it has any. Its exporter takes a redirect for a success."""
    session = requests.Session()
    session.stream = True
    session.hooks["response"].append(_take_answer)
    return session


def _take_answer(response: requests.Response, *_args: object, **_kwargs: object) -> None:
    try:
        if 300 <= response.status_code < 400:
            raise ExportFailed(f"HTTP {response.status_code}: a redirect is not followed")
        response.raw.read(ANSWER_BYTES_MAX)
    finally:
        response.close()


def _context(context: spans.SpanContext) -> SpanContext:
    """What is exported is sampled: for a slow or failed trace that is decided at its end."""
    return SpanContext(context.trace_id, context.span_id, is_remote=False, trace_flags=_SAMPLED)
