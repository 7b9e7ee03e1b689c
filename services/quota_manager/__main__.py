"""Entry point of a quota manager: `python -m services.quota_manager` builds every object and runs it."""

from libs.cluster.health import health_of
from libs.cluster.records import QUOTA_MANAGER
from libs.commitlog.files.filesystem import OsFileSystem
from libs.runtime.identity import own_version
from libs.runtime.lifecycle import Lifecycle
from libs.runtime.process import open_admin_port, own_traces, run_service, system_environment
from libs.runtime.tracing.trace_settings import TraceSettings
from libs.telemetry.metrics import Metrics
from services.quota_manager import process
from services.quota_manager.config import QuotaManagerConfig
from services.quota_manager.meters import Meters
from services.quota_manager.quota_manager import QuotaManager


async def serve(config: QuotaManagerConfig, trace_settings: TraceSettings, lifecycle: Lifecycle) -> None:
    metrics = Metrics(QUOTA_MANAGER, process=True, version=own_version())
    environment = system_environment(config, trace_settings, QUOTA_MANAGER, OsFileSystem(), lifecycle, metrics)

    async def observe(manager: QuotaManager) -> None:
        metrics.registry.register(Meters(manager))
        await open_admin_port(
            config,
            lifecycle,
            metrics,
            ready=manager.ready,
            health=lambda: health_of(manager.image, current=manager.registered()),
            debug={"quotas": manager.accounts, "gateways": manager.gateways},
            store=environment.store,
            traces=own_traces(environment),
        )

    await process.serve(config, environment, lifecycle, observe)


if __name__ == "__main__":
    run_service(QuotaManagerConfig, QUOTA_MANAGER, serve)
