"""Builds a controller and runs it: `python -m services.controller`. See config.py for what it is told."""

import asyncio
import random
import secrets
from functools import partial

from libs.clock import SystemClock
from libs.cluster.election import Election
from libs.cluster.etcd_store import EtcdStore
from libs.cluster.follower import ImageFollower
from libs.cluster.membership import Membership, Superseded
from libs.cluster.records import CONTROLLER, STORAGE, ElectedController, Member
from libs.commitlog.filesystem import OsFileSystem
from libs.rpc.client import RpcClient
from libs.rpc.server import Hello, RpcServer
from libs.rpc.socket_transport import SocketTransport
from libs.runtime.admin import AdminServer
from libs.runtime.config import load_or_exit
from libs.runtime.identity import host_id, next_incarnation, own_version
from libs.runtime.lifecycle import Lifecycle, run
from libs.telemetry.logs import configure
from libs.telemetry.metrics import Metrics
from services.controller import meters
from services.controller.administration import Administration
from services.controller.api import methods
from services.controller.config import ControllerConfig
from services.controller.core.assignment import Limits
from services.controller.log_survey import LogSurvey
from services.controller.service import FEATURE_LEVEL, Controller


def main() -> None:
    config = load_or_exit(ControllerConfig, "controller")
    configure("controller", f"controller-{config.node_id}", config.log_level)
    run(partial(serve, config))


async def serve(config: ControllerConfig, lifecycle: Lifecycle) -> None:
    metrics = Metrics("controller", process=True)
    incarnation = next_incarnation(OsFileSystem(), config.data_dir, SystemClock().wall_ms())
    source = random.Random(secrets.randbits(128))

    store = EtcdStore(config.etcd)
    lifecycle.on_stop(store.close)
    follower = ImageFollower(store)
    lifecycle.on_stop(follower.close)
    candidate = ElectedController(config.node_id, incarnation)

    def hello() -> Hello:
        image = follower.image
        return Hello(CONTROLLER, config.node_id, incarnation, own_version(), image.feature_level, image.cluster_id)

    def connect(address: str, node_id: int) -> RpcClient:
        return RpcClient(address, hello, SocketTransport(), expected=(STORAGE, node_id))

    controller = Controller(
        store,
        follower,
        Election(store, candidate, config.election_ttl_s),
        candidate,
        Administration(source, Limits(partitions_per_request=config.request_partitions_max)),
        source,
        LogSurvey(connect, config.host_id or host_id()),
        cluster_defaults=config.cluster_defaults,
        patience_s=config.patience_s,
    )
    meters.register(metrics, controller)
    admin = AdminServer(config.admin_host, config.admin_port, ready=controller.ready, metrics=metrics, debug=controller.debug())
    await admin.start()
    lifecycle.on_stop(admin.close)

    await follower.start()
    server = RpcServer(hello, methods(controller), transport=SocketTransport())
    lifecycle.on_stop(server.close)
    unix = await server.listen(f"unix:{config.rpc_unix}") if config.rpc_unix else ""
    tcp = await server.listen(f"tcp:{config.rpc_tcp}") if config.rpc_tcp else ""
    member = Member(
        role=CONTROLLER,
        node_id=config.node_id,
        incarnation=incarnation,
        host_id=config.host_id or host_id(),
        tcp_address=tcp,
        unix_address=unix,
        version=own_version(),
        feature_level=FEATURE_LEVEL,
    )
    membership = Membership(store, member, config.member_ttl_s, on_superseded=lambda other: lifecycle.stop(Superseded(other)))
    lifecycle.on_stop(membership.close)
    follower.subscribe(membership.follow)
    await membership.start()

    office = asyncio.create_task(controller.run(), name="controller")
    lifecycle.on_stop(lambda: _ended(office))
    office.add_done_callback(lambda task: None if task.cancelled() else lifecycle.stop(task.exception()))


async def _ended(office: "asyncio.Task[None]") -> None:
    """Cancelled, it resigns."""
    office.cancel()
    await asyncio.wait((office,))


if __name__ == "__main__":
    main()
