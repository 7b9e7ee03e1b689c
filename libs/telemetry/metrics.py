"""Prometheus metrics of one process. A registry of its own, so that tests and the simulator can run many in one process."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from libs.telemetry.definitions import GaugeDefinition, MetricSet, Rows
from libs.telemetry.process_memory import ProcessMemory

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Build(MetricSet):
    def __init__(self, version: str, service: str) -> None:
        super().__init__()
        self._labels = (version, service)

    @GaugeDefinition(
        name="penstock_build_info",
        help="Version of Penstock, and the service that this process is.",
        labels=("version", "service"),
        healthy="1",
    )
    def build_info(self) -> Rows:
        return [(self._labels, 1)]


class Metrics:
    """The registry of a process. `target_info` names the service. Collectors register here; `definitions.py` defines what they
    collect."""

    def __init__(self, service: str, *, process: bool = False, version: str = "unknown") -> None:
        """`process`: also version, memory, descriptors and garbage collection of this process."""
        self.registry = CollectorRegistry(target_info={"service": service})
        if process:
            self.registry.register(Build(version, service))
            ProcessCollector(registry=self.registry)
            self.registry.register(ProcessMemory())
            PlatformCollector(registry=self.registry)
            GCCollector(registry=self.registry)

    def render(self) -> bytes:
        """In Prometheus' text format (`CONTENT_TYPE`)."""
        return generate_latest(self.registry)
