"""Entry point of a gateway: `python -m services.gateway` builds every object and runs it."""

from libs.cluster.records import GATEWAY
from libs.commitlog.files.filesystem import OsFileSystem
from libs.runtime.identity import own_version
from libs.runtime.lifecycle import Lifecycle, descriptors_max
from libs.runtime.page_caches import page_cache_id
from libs.runtime.process import open_admin_port, run_service, system_environment
from libs.runtime.tracing.trace_settings import TraceSettings
from libs.runtime.unused_producer_ids import UnusedProducerIds
from libs.telemetry.metrics import Metrics
from services.gateway.config import GatewayConfig
from services.gateway.service import Gateway


async def serve(config: GatewayConfig, trace_settings: TraceSettings, lifecycle: Lifecycle) -> None:
    metrics = Metrics(GATEWAY, process=True, version=own_version())
    fs = OsFileSystem()
    world = system_environment(config, trace_settings, GATEWAY, fs, lifecycle, metrics)
    lifecycle.on_stop(world.store.close)
    spare_ids = UnusedProducerIds(fs, config.data_dir, page_cache_id(config.data_dir))
    gateway = Gateway(config, world, metrics, die=lifecycle.stop, descriptors_max=descriptors_max(), spare_ids=spare_ids)
    views = gateway.connection_views
    await open_admin_port(
        config,
        lifecycle,
        metrics,
        ready=gateway.ready,
        health=gateway.health,
        store=world.store,
        traces=gateway.traces,
        debug={"gateway": gateway.debug, "connections": views.connections, "clients": views.clients},
        lookups={"connections": views.connection, "clients": views.client},
    )
    lifecycle.on_stop(gateway.stop)
    await gateway.start()


if __name__ == "__main__":
    run_service(GatewayConfig, GATEWAY, serve)
