"""A whole controller process, over whatever world it is given."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from libs.cluster.election import Election
from libs.cluster.follower import ImageFollower
from libs.cluster.membership import Membership, Superseded
from libs.cluster.records import CONTROLLER, STORAGE, ElectedController, Member
from libs.cluster.store import MetadataStore
from libs.rpc.client import RpcClient
from libs.rpc.server import Hello, RpcServer
from libs.rpc.transport import Transport
from libs.runtime.controllers import Controllers
from libs.runtime.lifecycle import Lifecycle
from libs.runtime.peers import ImageLending, Peers
from services.controller.administration import Administration
from services.controller.api import methods
from services.controller.config import ControllerConfig
from services.controller.core.assignment import Limits
from services.controller.log_survey import LogSurvey
from services.controller.obituaries import Obituaries, Succession
from services.controller.service import FEATURE_LEVEL, Controller
from services.controller.vigil import Vigil


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a controller takes from the world. Built in `__main__`, or by the simulator."""

    store: MetadataStore
    transport: Transport
    random: random.Random
    incarnation: int
    host_id: str
    version: str
    peers: Peers | None = None
    """Whom to ask for an image while the store is away."""


async def serve(
    config: ControllerConfig, world: Surroundings, lifecycle: Lifecycle, on_built: Callable[[Controller], Awaitable[None]]
) -> None:
    """Returns when it campaigns, or, with an image that was borrowed, when it watches over the living: office is held on the
    store's own image alone. `on_built` is awaited before anything is started."""
    store, incarnation, peers = world.store, world.incarnation, world.peers
    lifecycle.on_stop(store.close)
    follower = ImageFollower(store, peers.newest if peers is not None else None)
    lifecycle.on_stop(follower.close)
    candidate = ElectedController(config.node_id, incarnation)

    def hello() -> Hello:
        image = follower.image
        return Hello(CONTROLLER, config.node_id, incarnation, world.version, image.feature_level, image.cluster_id)

    def connect(address: str, node_id: int) -> RpcClient:
        return RpcClient(address, hello, world.transport, expected=(STORAGE, node_id))

    vigil = Vigil(follower, world.transport, world.host_id, config.node_id)
    controller = Controller(
        store,
        follower,
        Election(store, candidate, config.election_ttl_s),
        candidate,
        Administration(world.random, Limits(partitions_per_request=config.request_partitions_max)),
        world.random,
        LogSurvey(connect, world.host_id),
        cluster_defaults=config.cluster_defaults,
        patience_s=config.patience_s,
        obituaries=Obituaries(vigil),
    )
    vigil.answer_for(lambda: controller.elected)
    await on_built(controller)
    await follower.start()
    if peers is not None:
        peers.note_members_of(follower)
    answers = {**methods(controller, vigil), **ImageLending(lambda: follower.image).methods}
    server = RpcServer(hello, answers, transport=world.transport, on_lost=vigil.connection_lost)
    lifecycle.on_stop(server.close)
    unix = await server.listen(f"unix:{config.rpc_unix}") if config.rpc_unix else ""
    tcp = await server.listen(f"tcp:{config.rpc_tcp}") if config.rpc_tcp else ""
    member = Member(
        role=CONTROLLER,
        node_id=config.node_id,
        incarnation=incarnation,
        host_id=world.host_id,
        tcp_address=tcp,
        unix_address=unix,
        version=world.version,
        feature_level=FEATURE_LEVEL,
    )
    membership = Membership(store, member, config.member_ttl_s, on_superseded=lambda other: lifecycle.stop(Superseded(other)))
    lifecycle.on_stop(membership.close)
    follower.subscribe(membership.follow)
    joining = asyncio.create_task(membership.start(), name="registration")
    if follower.verified:
        await joining
    others = Controllers(hello, world.host_id, world.transport)
    lifecycle.on_stop(others.close)
    controller.heed_denials(others.denies)
    others.follow(follower.image)
    follower.subscribe(lambda _, new: others.follow(new))
    vigil.start()

    async def hold_office() -> None:
        await joining
        await follower.until_verified()
        succession = asyncio.create_task(Succession(store, follower, vigil).run(), name="succession")
        try:
            await controller.run()
        finally:
            await _ended(succession)

    async def end_vigil() -> None:
        vigil.close()

    lifecycle.on_stop(end_vigil)
    office = asyncio.create_task(hold_office(), name="controller")
    lifecycle.on_stop(lambda: _ended(office))
    office.add_done_callback(lambda task: None if task.cancelled() else lifecycle.stop(task.exception()))


async def _ended(task: "asyncio.Task[None]") -> None:
    """Cancelled, the office is resigned."""
    task.cancel()
    await asyncio.wait((task,))
