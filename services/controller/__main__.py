"""Entry point of a controller: `python -m services.controller` builds every object and runs it."""

from libs.cluster.records import CONTROLLER
from libs.commitlog.files.filesystem import OsFileSystem
from libs.runtime.lifecycle import Lifecycle
from libs.runtime.process import open_admin_port, run_service, system_environment
from libs.telemetry.metrics import Metrics
from services.controller import meters, process
from services.controller.config import ControllerConfig
from services.controller.controller import Controller


async def serve(config: ControllerConfig, lifecycle: Lifecycle) -> None:
    metrics = Metrics(CONTROLLER, process=True)

    async def observe(controller: Controller) -> None:
        meters.register(metrics, controller)
        await open_admin_port(
            config, lifecycle, metrics, ready=controller.ready, image=lambda: controller.image, debug=controller.debug()
        )

    await process.serve(config, system_environment(config, CONTROLLER, OsFileSystem()), lifecycle, observe)


if __name__ == "__main__":
    run_service(ControllerConfig, CONTROLLER, serve)
