"""The traces of one service, over its settings: what it records goes into its ring, and to the exporter if there is one."""

import logging
import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from libs.runtime.lifecycle import Lifecycle
from libs.runtime.tracing.trace_settings import (
    NONE,
    NOT_EXPORTED,
    OTLP,
    READ_AT_IMPORT,
    GivenSettings,
    NotHeeded,
    TraceSettings,
    trace_settings,
)
from libs.telemetry.logs import fields
from libs.telemetry.metrics import Metrics
from libs.telemetry.tracing.exporting.collector import Collector, Origin, shown
from libs.telemetry.tracing.exporting.span_exporter import SpanExporter
from libs.telemetry.tracing.recorder import Tracing
from libs.telemetry.tracing.span import Span
from libs.telemetry.tracing.trace_ring import TraceRing

log = logging.getLogger("process")


class KeepAndExport:
    """A sink that hands spans to the ring and the exporter."""

    def __init__(self, origin: Origin, ring: TraceRing, exporter: SpanExporter) -> None:
        self._origin, self._ring, self._exporter = origin, ring, exporter

    def offer(self, spans: Sequence[Span]) -> None:
        self._ring.offer(spans)
        self._exporter.offer(self._origin, spans)


def read_trace_settings(given: GivenSettings, env: Mapping[str, str] = os.environ) -> TraceSettings:
    """Raises ValueError for a setting of ours that is wrong, or that this installation cannot obey."""
    settings = trace_settings(given, env)
    if settings.exporter == OTLP and not _has_opentelemetry():
        reason = (
            f"traces are to be sent to {shown(settings.endpoint)}, and OpenTelemetry's SDK is not installed; "
            "install penstock[tracing], or set PENSTOCK_TRACE_EXPORTER=none"
        )
        if given.trace_exporter or given.trace_endpoint:
            raise ValueError(reason)
        not_heeded = (*settings.not_heeded, NotHeeded(reason, NOT_EXPORTED))
        return replace(settings, exporter=NONE, endpoint="", not_heeded=not_heeded)
    return settings


def warn_of_variables(settings: TraceSettings) -> None:
    """Logs which of OpenTelemetry's variables are not heeded. Call it once, when logging is set up."""
    for each in settings.not_heeded:
        log.warning("a variable of OpenTelemetry is not heeded", extra=fields(reason=each.reason, instead=each.instead))


def _has_opentelemetry() -> bool:
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


class ProcessTracing:
    """The traces of a process, for all of its services. Its exporter starts with it, and ends last of what the lifecycle ends."""

    def __init__(self, settings: TraceSettings, lifecycle: Lifecycle, metrics: Metrics) -> None:
        """Call it on the event loop, before anything that records spans."""
        self._settings = settings
        self._exporter: SpanExporter | None = None
        if settings.exporter != NONE:
            self._exporter = SpanExporter(partial(collector_of, settings), settings.endpoint)
            metrics.registry.register(self._exporter.meters)
            lifecycle.on_stop(self._exporter.close)
            self._exporter.start()

    def of(self, origin: Origin) -> Tracing:
        """The tracing of one service."""
        ring = TraceRing()
        sink = ring if self._exporter is None else KeepAndExport(origin, ring, self._exporter)
        return Tracing(self._settings.rules, sink, ring)


def collector_of(settings: TraceSettings) -> Collector:
    """What sends is dear to import, and most processes need none of it. So only the exporter's thread calls this."""
    if settings.exporter == OTLP:
        with _without(READ_AT_IMPORT, os.environ):
            from libs.telemetry.tracing.exporting.otlp import OtlpCollector

        return OtlpCollector(settings.endpoint, settings.resources)
    from libs.telemetry.tracing.exporting.zipkin import ZipkinCollector

    return ZipkinCollector(settings.endpoint, settings.resources)


@contextmanager
def _without(variables: Sequence[str], env: MutableMapping[str, str]) -> Iterator[None]:
    """Takes variables from the environment for as long as the body runs."""
    taken = {name: env.pop(name) for name in variables if name in env}
    try:
        yield
    finally:
        env.update(taken)
