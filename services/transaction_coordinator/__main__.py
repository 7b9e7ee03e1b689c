"""Entry point of a transaction coordinator: `python -m services.transaction_coordinator` builds every object and runs it."""

from libs.clock import Clock
from libs.cluster.health import health_of
from libs.cluster.records import TRANSACTION_COORDINATOR
from libs.commitlog.files.filesystem import OsFileSystem
from libs.runtime.identity import own_version
from libs.runtime.lifecycle import Lifecycle
from libs.runtime.process import open_admin_port, own_traces, run_service, system_environment
from libs.runtime.tracing.trace_settings import TraceSettings
from libs.telemetry.metrics import Metrics
from services.transaction_coordinator import process
from services.transaction_coordinator.config import TransactionCoordinatorConfig
from services.transaction_coordinator.coordinator import TransactionCoordinator
from services.transaction_coordinator.gauges import TransactionGauges, open_transactions


async def serve(config: TransactionCoordinatorConfig, trace_settings: TraceSettings, lifecycle: Lifecycle) -> None:
    metrics = Metrics(TRANSACTION_COORDINATOR, process=True, version=own_version())
    environment = system_environment(config, trace_settings, TRANSACTION_COORDINATOR, OsFileSystem(), lifecycle, metrics)
    clock: Clock = environment.clock

    async def observe(coordinator: TransactionCoordinator) -> None:
        metrics.registry.register(TransactionGauges(coordinator, clock.wall_ms))
        metrics.watch_spans(coordinator.recorder)
        await open_admin_port(
            config,
            lifecycle,
            metrics,
            ready=coordinator.ready,
            health=lambda: health_of(coordinator.image, current=coordinator.registered()),
            debug={
                "shards": coordinator.shards.debug,
                "transactions": lambda: open_transactions(coordinator, clock.wall_ms()),
            },
            store=environment.store,
            traces=own_traces(environment),
        )

    await process.serve(config, environment, lifecycle, observe)


if __name__ == "__main__":
    run_service(TransactionCoordinatorConfig, TRANSACTION_COORDINATOR, serve)
