"""Prometheus metrics of one process. A registry of its own, so that tests and the simulator can run many in one process."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

LATENCY_BUCKETS = (*(base * 10**power for power in range(-5, 1) for base in (1, 2.5, 5)), 10.0)
"""Seconds, from 10 µs to 10 s."""


class Metrics:
    """The registry of a process. `target_info` names the service. Collectors register here; `definitions.py` defines what they
    collect."""

    def __init__(self, service: str, *, process: bool = False) -> None:
        """`process`: also memory, descriptors and garbage collection of this process."""
        self.registry = CollectorRegistry(target_info={"service": service})
        if process:
            ProcessCollector(registry=self.registry)
            PlatformCollector(registry=self.registry)
            GCCollector(registry=self.registry)

    def render(self) -> bytes:
        """In Prometheus' text format (`CONTENT_TYPE`)."""
        return generate_latest(self.registry)
