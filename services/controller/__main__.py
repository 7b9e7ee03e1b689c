"""Entry point of a controller: `python -m services.controller` builds every object and runs it."""

import asyncio

from libs.cluster.measured_store import MeasuredStore
from libs.cluster.records import CONTROLLER
from libs.commitlog.files.filesystem import OsFileSystem
from libs.runtime.identity import own_version
from libs.runtime.lifecycle import Lifecycle, end_task
from libs.runtime.process import open_admin_port, own_traces, run_service, system_environment
from libs.runtime.tracing.trace_settings import TraceSettings
from libs.telemetry.metrics import Metrics
from services.controller import process
from services.controller.config import ControllerConfig
from services.controller.controller import Controller
from services.controller.controller_meters import ControllerMeters
from services.controller.health_watch import HealthWatch


async def serve(config: ControllerConfig, trace_settings: TraceSettings, lifecycle: Lifecycle) -> None:
    metrics = Metrics(CONTROLLER, process=True, version=own_version())

    async def observe(controller: Controller) -> None:
        metrics.registry.register(ControllerMeters(controller))
        metrics.watch_spans(controller.traces.recorder)
        store = environment.store
        watch = HealthWatch(
            lambda: controller.image,
            lambda: controller.elected,
            lambda: controller.registered(),
            environment.clock,
            store.trouble.words if isinstance(store, MeasuredStore) else str,
            controller.long_running,
        )
        ready, debug = controller.ready, controller.debug()
        traces = own_traces(environment)
        await open_admin_port(
            config, lifecycle, metrics, ready=ready, health=watch.health, traces=traces, debug=debug, store=store
        )
        watching = asyncio.create_task(watch.run(), name="health watch")
        lifecycle.on_stop(lambda: end_task(watching))

    environment = system_environment(config, trace_settings, CONTROLLER, OsFileSystem(), lifecycle, metrics)
    await process.serve(config, environment, lifecycle, observe)


if __name__ == "__main__":
    run_service(ControllerConfig, CONTROLLER, serve)
