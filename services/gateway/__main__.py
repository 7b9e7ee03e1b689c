"""Builds the gateway and runs it: `python -m services.gateway`. See config.py for what it is told."""

from functools import partial

from libs.clock import SystemClock
from libs.cluster.etcd_store import EtcdStore
from libs.cluster.records import GATEWAY
from libs.commitlog.filesystem import OsFileSystem
from libs.rpc.socket_transport import SocketTransport
from libs.runtime.address_book import AddressBook
from libs.runtime.admin import AdminServer
from libs.runtime.config import load_or_exit
from libs.runtime.identity import boot_id, host_id, next_incarnation, own_version
from libs.runtime.lifecycle import Lifecycle, run
from libs.runtime.peers import Peers
from libs.telemetry.logs import configure
from libs.telemetry.metrics import Metrics
from services.gateway.config import GatewayConfig
from services.gateway.service import Gateway
from services.gateway.spare_ids import SpareIds


def main() -> None:
    config = load_or_exit(GatewayConfig, "gateway")
    configure("gateway", f"gateway-{config.node_id}", config.log_level)
    run(partial(serve, config))


async def serve(config: GatewayConfig, lifecycle: Lifecycle) -> None:
    clock, fs, transport = SystemClock(), OsFileSystem(), SocketTransport()
    metrics = Metrics("gateway", process=True)
    store = EtcdStore(config.etcd)
    lifecycle.on_stop(store.close)
    incarnation, host = next_incarnation(fs, config.data_dir, clock.wall_ms()), config.host_id or host_id()
    peers = Peers(
        *(AddressBook(fs, config.data_dir), config.peers),
        role=GATEWAY,
        node_id=config.node_id,
        incarnation=incarnation,
        version=own_version(),
        host_id=host,
        transport=transport,
    )
    gateway = Gateway(
        config,
        clock=clock,
        transport=transport,
        store=store,
        metrics=metrics,
        host_id=host,
        incarnation=incarnation,
        version=own_version(),
        die=lifecycle.stop,
        peers=peers,
        spare_ids=SpareIds(fs, config.data_dir, boot_id()),
    )
    admin = AdminServer(
        config.admin_host, config.admin_port, ready=gateway.ready, metrics=metrics, debug={"gateway": gateway.debug}
    )
    await admin.start()
    lifecycle.on_stop(admin.close)
    lifecycle.on_stop(gateway.stop)
    await gateway.start()


if __name__ == "__main__":
    main()
