"""Builds a controller and runs it: `python -m services.controller`. See config.py, and process.py."""

import random
import secrets
from functools import partial

from libs.clock import SystemClock
from libs.cluster.etcd_store import EtcdStore
from libs.cluster.records import CONTROLLER
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
from services.controller import meters, process
from services.controller.config import ControllerConfig
from services.controller.process import Surroundings
from services.controller.service import Controller


def main() -> None:
    config = load_or_exit(ControllerConfig, "controller")
    configure("controller", f"controller-{config.node_id}", config.log_level)
    run(partial(serve, config))


async def serve(config: ControllerConfig, lifecycle: Lifecycle) -> None:
    metrics = Metrics("controller", process=True)
    fs, transport = OsFileSystem(), SocketTransport()
    incarnation, host = next_incarnation(fs, config.data_dir, SystemClock().wall_ms()), config.host_id or host_id()
    peers = Peers(
        *(AddressBook(fs, config.data_dir), config.peers),
        role=CONTROLLER,
        node_id=config.node_id,
        incarnation=incarnation,
        version=own_version(),
        host_id=host,
        transport=transport,
    )
    world = Surroundings(
        store=EtcdStore(config.etcd),
        transport=transport,
        random=random.Random(secrets.randbits(128)),
        incarnation=incarnation,
        host_id=host,
        version=own_version(),
        peers=peers,
    )

    async def watch_over(controller: Controller) -> None:
        meters.register(metrics, controller)
        ready, debug = controller.ready, controller.debug()
        admin = AdminServer(config.admin_host, config.admin_port, ready=ready, metrics=metrics, debug=debug)
        await admin.start()
        lifecycle.on_stop(admin.close)

    await process.serve(config, world, lifecycle, watch_over)


if __name__ == "__main__":
    main()
