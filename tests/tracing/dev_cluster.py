"""All services of a cluster in this process, with one list of spans."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from libs.runtime.lifecycle import Lifecycle
from libs.telemetry.logs import LogSettings
from libs.telemetry.tracing.recorder import Tracing
from libs.telemetry.tracing.sampling import TraceRules
from libs.telemetry.tracing.span import Span
from services.dev.cluster import Cluster
from services.dev.data_folder import open_data_folder
from services.dev.ports import held_port
from services.dev.settings import BrokerConfigs, Settings
from tests.support.polling import until
from tests.support.span_ring import SpanRing
from tests.tracing.trees import of_trace

HOST = "127.0.0.1"


@dataclass(frozen=True)
class TracedCluster:
    bootstrap_servers: str
    spans: SpanRing

    async def trace_of(self, is_root: Callable[[Span], bool], complete: Callable[[list[Span]], bool] = bool) -> list[Span]:
        """The spans of the first trace with such a span, once it is complete."""

        spans: list[Span] = []

        def found() -> bool:
            root = next((span for span in self.spans if is_root(span)), None)
            spans[:] = of_trace(self.spans, root.context.trace_id) if root is not None else []
            return bool(spans) and complete(spans)

        await until(found)
        return spans


@asynccontextmanager
async def traced_cluster(rules: TraceRules, **broker_configs: str) -> AsyncIterator[TracedCluster]:
    """The cluster is ready, and ends with the context."""
    folder, lifecycle, spans = open_data_folder(""), Lifecycle(), SpanRing(100_000)
    configs = BrokerConfigs(cluster_wide={name.replace("_", "."): value for name, value in broker_configs.items()})
    settings = Settings(port=0, broker_configs=configs)
    try:
        with held_port(HOST, 0) as port:
            await Cluster(settings, port, folder, lifecycle, LogSettings(), Tracing(rules, spans)).start()
        yield TracedCluster(f"{HOST}:{port}", spans)
    finally:
        await lifecycle.drain()
        folder.close()
    assert lifecycle.failure is None
