"""Entry point of a group coordinator: `python -m services.group_coordinator` builds every object and runs it."""

from libs.cluster.health import health_of
from libs.cluster.records import GROUP_COORDINATOR
from libs.commitlog.files.filesystem import OsFileSystem
from libs.runtime.identity import own_version
from libs.runtime.lifecycle import Lifecycle
from libs.runtime.process import open_admin_port, own_traces, run_service, system_environment
from libs.runtime.tracing.trace_settings import TraceSettings
from libs.telemetry.metrics import Metrics
from services.group_coordinator import process
from services.group_coordinator.config import GroupCoordinatorConfig
from services.group_coordinator.coordinator import GroupCoordinator
from services.group_coordinator.gauges import GroupGauges


async def serve(config: GroupCoordinatorConfig, trace_settings: TraceSettings, lifecycle: Lifecycle) -> None:
    metrics = Metrics(GROUP_COORDINATOR, process=True, version=own_version())

    async def observe(coordinator: GroupCoordinator) -> None:
        metrics.registry.register(GroupGauges(coordinator))
        metrics.watch_spans(coordinator.recorder)
        await open_admin_port(
            config,
            lifecycle,
            metrics,
            ready=coordinator.ready,
            health=lambda: health_of(coordinator.image, current=coordinator.registered()),
            debug={"shards": coordinator.shards.debug, "groups": coordinator.group_views.groups},
            lookups={"groups": coordinator.group_views.group},
            store=environment.store,
            traces=own_traces(environment),
        )

    environment = system_environment(config, trace_settings, GROUP_COORDINATOR, OsFileSystem(), lifecycle, metrics)
    await process.serve(config, environment, lifecycle, observe)


if __name__ == "__main__":
    run_service(GroupCoordinatorConfig, GROUP_COORDINATOR, serve)
