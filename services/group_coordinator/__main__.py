"""Builds a group coordinator and runs it: `python -m services.group_coordinator`. See config.py, and process.py."""

import random
import secrets
from functools import partial

from libs.clock import SystemClock
from libs.cluster.etcd_store import EtcdStore
from libs.cluster.records import GROUP_COORDINATOR
from libs.commitlog.filesystem import OsFileSystem
from libs.rpc.socket_transport import SocketTransport
from libs.runtime.address_book import AddressBook
from libs.runtime.admin import AdminServer
from libs.runtime.config import load_or_exit
from libs.runtime.identity import host_id, next_incarnation, own_version
from libs.runtime.lifecycle import Lifecycle, run
from libs.runtime.peers import Peers
from libs.telemetry.logs import configure
from libs.telemetry.metrics import Metrics
from services.group_coordinator import process
from services.group_coordinator.config import GroupCoordinatorConfig
from services.group_coordinator.gauges import Gauges
from services.group_coordinator.process import Surroundings
from services.group_coordinator.service import GroupCoordinator


def main() -> None:
    config = load_or_exit(GroupCoordinatorConfig, "group_coordinator")
    configure("group_coordinator", f"group_coordinator-{config.node_id}", config.log_level)
    run(partial(serve, config))


async def serve(config: GroupCoordinatorConfig, lifecycle: Lifecycle) -> None:
    metrics = Metrics("group_coordinator", process=True)
    clock, fs, transport = SystemClock(), OsFileSystem(), SocketTransport()
    incarnation, host = next_incarnation(fs, config.data_dir, clock.wall_ms()), config.host_id or host_id()
    peers = Peers(
        *(AddressBook(fs, config.data_dir), config.peers),
        role=GROUP_COORDINATOR,
        node_id=config.node_id,
        incarnation=incarnation,
        version=own_version(),
        host_id=host,
        transport=transport,
    )
    world = Surroundings(
        clock=clock,
        store=EtcdStore(config.etcd),
        transport=transport,
        random=random.Random(secrets.randbits(128)),
        incarnation=incarnation,
        host_id=host,
        version=own_version(),
        peers=peers,
    )

    async def watch_over(coordinator: GroupCoordinator) -> None:
        metrics.registry.register(Gauges(coordinator))
        admin = AdminServer(
            *(config.admin_host, config.admin_port),
            ready=coordinator.ready,
            metrics=metrics,
            debug={"shards": coordinator.shards.debug, "groups": coordinator.seen.groups},
            lookups={"groups": coordinator.seen.group},
        )
        await admin.start()
        lifecycle.on_stop(admin.close)

    await process.serve(config, world, lifecycle, watch_over)


if __name__ == "__main__":
    main()
