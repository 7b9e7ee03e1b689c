"""The admin port of a cluster in one process: one for all services."""

from libs.runtime.admin import AdminServer
from libs.runtime.lifecycle import Lifecycle
from services.dev.cluster import Cluster
from services.dev.settings import Settings


async def open_admin_port(settings: Settings, cluster: Cluster, lifecycle: Lifecycle) -> None:
    """Raises OSError if the port is taken."""
    assert settings.admin_port is not None
    admin = AdminServer(
        settings.host,
        settings.admin_port,
        ready=cluster.ready,
        health=cluster.health,
        metrics=cluster.metrics,
        debug={name: show for view in cluster.views for name, show in view.debug.items()},
        lookups={name: find for view in cluster.views for name, find in view.lookups.items()},
    )
    lifecycle.on_stop(admin.close)
    await admin.start()
