"""Prometheus metrics of one process. A registry of its own, so that tests and the simulator can run many in one process."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from libs.telemetry.definitions import GaugeDefinition
from libs.telemetry.process_memory import ProcessMemory

BUILD_INFO: Final = GaugeDefinition(
    name="penstock_build_info",
    help="Version of Penstock, and the service that this process is.",
    labels=("version", "service"),
    healthy="1",
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Build(Collector):
    def __init__(self, version: str, service: str) -> None:
        self._labels = (version, service)

    def collect(self) -> Iterator[Metric]:
        yield BUILD_INFO.samples([(self._labels, 1)])


class Metrics:
    """The registry of a process. `target_info` names the service. Collectors register here; `definitions.py` defines what they
    collect."""

    def __init__(self, service: str, *, process: bool = False, version: str = "unknown") -> None:
        """`process`: also version, memory, descriptors and garbage collection of this process."""
        self.registry = CollectorRegistry(target_info={"service": service})
        if process:
            self.registry.register(_Build(version, service))
            ProcessCollector(registry=self.registry)
            self.registry.register(ProcessMemory())
            PlatformCollector(registry=self.registry)
            GCCollector(registry=self.registry)

    def render(self) -> bytes:
        """In Prometheus' text format (`CONTENT_TYPE`)."""
        return generate_latest(self.registry)
