"""The admin port of a cluster in one process: one for all services."""

import errno
import os

from libs.runtime.admin import AdminServer
from libs.runtime.admin_access import AdminAccess, access_to
from libs.runtime.lifecycle import Lifecycle
from services.dev.cluster import Cluster
from services.dev.settings import Settings, WrongSetting

TOKEN_FILE, NAMES = "PENSTOCK_ADMIN_TOKEN_FILE", "PENSTOCK_ADMIN_NAMES"


async def open_admin_port(settings: Settings, cluster: Cluster, lifecycle: Lifecycle) -> None:
    """Raises WrongSetting if the port cannot be had."""
    assert settings.admin_port is not None
    admin = AdminServer(
        settings.host,
        settings.admin_port,
        ready=cluster.ready,
        health=cluster.health,
        metrics=cluster.metrics,
        debug={name: show for view in cluster.views for name, show in view.debug.items()},
        lookups={name: find for view in cluster.views for name, find in view.lookups.items()},
        access=_access(settings),
    )
    lifecycle.on_stop(admin.close)
    try:
        await admin.start()
    except OSError as error:
        reason = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be opened ({error.strerror or error})"
        port = f"port {settings.admin_port} of {settings.host}"
        raise WrongSetting(f"{port} {reason}; choose another by --admin-port, or a free one by --admin-port 0") from error


def _access(settings: Settings) -> AdminAccess:
    """By the variables that services have, and the token of `--security`. Raises WrongSetting without the token that is named."""
    file, names = os.environ.get(TOKEN_FILE, "") or settings.admin_token_file, os.environ.get(NAMES, "")
    try:
        return access_to((settings.host, settings.advertised_host, *names.split(",")), file)
    except (OSError, ValueError) as error:
        raise WrongSetting(f"no admin token in {file} ({TOKEN_FILE} names another): {error}") from error
