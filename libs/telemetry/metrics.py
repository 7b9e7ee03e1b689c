"""Prometheus metrics of one process. A registry of its own, so that tests and the simulator can run many in one process."""

import asyncio
from collections.abc import Iterator
from time import perf_counter
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.registry import Collector

from libs.telemetry.definitions import GaugeDefinition, MetricSet, Rows
from libs.telemetry.exposition import Format, pieces
from libs.telemetry.interruptions import Interruptions
from libs.telemetry.process_memory import ProcessMemory
from libs.telemetry.process_use import ProcessUse
from libs.telemetry.tracing.recorder import SpanRecorder
from libs.telemetry.tracing.span_meters import SpanMeters

SLICE_S: Final = 0.001
"""How long a scrape may hold up the event loop at a time. One piece of text, or one look at many things, may take longer."""


class Build(MetricSet):
    def __init__(self, version: str, service: str) -> None:
        super().__init__()
        self._labels = (service, version)

    @GaugeDefinition(
        name="penstock_build_info",
        help="Version of Penstock, and the service that this process is.",
        labels=("service", "version"),
        healthy="1; one version in all processes, but during an upgrade",
    )
    def build_info(self) -> Rows:
        return [(self._labels, 1)]


class _Target(Collector):
    """OpenTelemetry's `target_info`."""

    def __init__(self, service: str) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("target", "Target metadata", value={"service": self._service})


class Registry(CollectorRegistry):
    """It knows its collectors in the order of their registration."""

    def __init__(self) -> None:
        super().__init__()
        self.collectors: list[Collector] = []

    def register(self, collector: Collector) -> None:
        super().register(collector)
        self.collectors.append(collector)


class Metrics:
    """The registry of a process. `target_info` names the service. Collectors register here; `definitions.py` defines what they
    collect."""

    def __init__(self, service: str, *, process: bool = False, version: str = "unknown") -> None:
        """`process`: also version, memory, descriptors and garbage collection of this process."""
        self.registry = Registry()
        self.registry.register(_Target(service))
        self.interruptions = Interruptions()
        """Measured while it is started, which an admin port does."""
        self._spans: SpanMeters | None = None
        self._scrape = asyncio.Lock()
        if process:
            self.registry.register(Build(version, service))
            self.registry.register(ProcessUse())
            self.registry.register(ProcessMemory())
            self.registry.register(self.interruptions)
            PlatformCollector(registry=self.registry)
            GCCollector(registry=self.registry)

    def watch_spans(self, recorder: SpanRecorder) -> None:
        """Counts the spans of a service, together with those of others in this process."""
        if self._spans is None:
            self._spans = SpanMeters()
            self.registry.register(self._spans)
        self._spans.watch(recorder)

    def render(self, form: Format = Format.PROMETHEUS) -> bytes:
        """All of it at once."""
        return "".join(pieces(list(self.registry.collectors), form)).encode()

    async def render_in_slices(self, form: Format) -> bytearray:
        """The same in many turns of the event loop, of `SLICE_S` each. Scrapes at the same time take their turn.

        Nothing joins the pieces in the end: for megabytes that would take a turn of milliseconds.
        """
        async with self._scrape:
            made = bytearray()
            since = perf_counter()
            for piece in pieces(list(self.registry.collectors), form):
                made += piece.encode()
                if perf_counter() - since > SLICE_S:
                    await asyncio.sleep(0)
                    since = perf_counter()
            return made
