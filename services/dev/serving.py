"""The life of a cluster in one process: it has its ports, starts, is announced, and ends with its lifecycle."""

from collections.abc import Callable
from contextlib import ExitStack

from libs.commitlog.model.errors import DirectoryDamaged, DirectoryLocked, DirectoryOwnerMismatch, DirectoryRetired
from libs.host_port import without_brackets
from libs.runtime.lifecycle import CannotRun, Lifecycle
from libs.telemetry.logs import LogSettings
from services.dev.admin_port import open_admin_port
from services.dev.cluster import Cluster
from services.dev.data_folder import DataFolder
from services.dev.metadata_files import MetadataDamaged
from services.dev.ports import held_port
from services.dev.security import secured
from services.dev.settings import Settings, WrongSetting

DAMAGES = (DirectoryOwnerMismatch, DirectoryLocked, DirectoryRetired, DirectoryDamaged, MetadataDamaged)


async def serve(
    settings: Settings, folder: DataFolder, logging: LogSettings, lifecycle: Lifecycle, announce: Callable[[str, int], None]
) -> None:
    """Runs a cluster; returns when it is ready, and has been announced with its address. Raises CannotRun."""
    try:
        with ExitStack() as held:
            port = held.enter_context(held_port(settings.host, settings.port))
            settings = secured(settings, folder, port)
            if settings.sasl_address is not None:
                held.enter_context(held_port(*settings.sasl_address, "--sasl-listener"))
            cluster = Cluster(settings, port, folder, lifecycle, logging)
            await cluster.start()
            if settings.admin_port is not None:
                await open_admin_port(settings, cluster, lifecycle)
    except WrongSetting as error:
        raise CannotRun(str(error)) from error
    except DAMAGES as error:
        raise CannotRun("the data folder cannot be used", path=folder.path, reason=error) from error
    announce(without_brackets(settings.advertised_host), port)
