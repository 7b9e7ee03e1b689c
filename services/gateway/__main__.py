"""Builds the gateway and runs it: `python -m services.gateway`. See config.py for what it is told."""

import os
from importlib.metadata import version
from pathlib import Path

from libs.clock import SystemClock
from libs.cluster.etcd_store import EtcdStore
from libs.rpc.socket_transport import SocketTransport
from libs.runtime.admin import AdminServer
from libs.runtime.config import load
from libs.runtime.lifecycle import Lifecycle, run
from libs.telemetry.logs import configure
from libs.telemetry.metrics import Metrics
from services.gateway.config import GatewayConfig
from services.gateway.service import Gateway

BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


async def main(lifecycle: Lifecycle) -> None:
    config = load(GatewayConfig, env=os.environ)
    configure("gateway", f"gateway-{config.node_id}", config.log_level)
    clock = SystemClock()
    metrics = Metrics("gateway", process=True)
    store = EtcdStore(config.etcd)
    lifecycle.on_stop(store.close)
    gateway = Gateway(
        config,
        clock=clock,
        transport=SocketTransport(),
        store=store,
        metrics=metrics,
        host_id=BOOT_ID,
        incarnation=int(clock.wall_ms()),
        version=version("penstock"),
    )
    admin = AdminServer(
        config.admin_host, config.admin_port, ready=gateway.ready, metrics=metrics, debug={"gateway": gateway.debug}
    )
    await admin.start()
    lifecycle.on_stop(admin.close)
    lifecycle.on_stop(gateway.stop)
    await gateway.start()


if __name__ == "__main__":
    run(main)
