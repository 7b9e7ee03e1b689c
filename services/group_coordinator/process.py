"""A whole coordinator process, over whatever world it is given.

**While the metadata store is away** a coordinator that runs goes on: nothing that it does needs the store, and what fences it are
the leaders of its partitions. One that starts goes on from a peer's image, as gateways do, and lends it to others; but it is
another owner than its former life, so it owns nothing until the controller, which needs the store, gives it shards. Until then it
answers NOT_COORDINATOR, and is not ready.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from libs.clock import Clock
from libs.cluster.follower import ImageFollower
from libs.cluster.image import ClusterImage
from libs.cluster.membership import Membership, Superseded
from libs.cluster.owners import Owner
from libs.cluster.records import GROUP_COORDINATOR, Member
from libs.cluster.store import MetadataStore
from libs.rpc.contracts.groups import ASK
from libs.rpc.server import Hello, RpcServer
from libs.rpc.transport import Transport
from libs.runtime.controllers import Controllers
from libs.runtime.lifecycle import Lifecycle
from libs.runtime.peers import ImageLending, Peers
from libs.runtime.storage_nodes import StorageNodes
from services.group_coordinator.api import GroupsApi
from services.group_coordinator.config import GroupCoordinatorConfig
from services.group_coordinator.departure import hand_over
from services.group_coordinator.service import GroupCoordinator, MakeMachine, group_machine

FEATURE_LEVEL = 1
DRAIN_S = 2.0
FRAMES_PER_TURN = 16
"""Some milliseconds of deciding. When the members of a large group come all at once, the first are answered while the last still
wait, and come apart: who was answered together comes together again."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a coordinator takes from the world. Built in `__main__`, or by the simulator."""

    clock: Clock
    store: MetadataStore
    transport: Transport
    random: random.Random
    incarnation: int
    host_id: str
    version: str
    make_machine: MakeMachine = group_machine
    peers: Peers | None = None
    """Whom to ask for an image while the store is away."""


async def serve(
    config: GroupCoordinatorConfig,
    world: Surroundings,
    lifecycle: Lifecycle,
    on_built: Callable[[GroupCoordinator], Awaitable[None]],
) -> None:
    """Returns when it is registered, or, with an image that was borrowed, when it answers. `on_built` is awaited before anything
    is started.

    At the end: shards are handed over, what is under way is answered, connections are closed, the registration ends.
    """
    store, peers, incarnation = world.store, world.peers, world.incarnation
    lifecycle.on_stop(store.close)
    follower = ImageFollower(store, peers.newest if peers is not None else None)
    lifecycle.on_stop(follower.close)

    def hello() -> Hello:
        image = follower.image
        return Hello(GROUP_COORDINATOR, config.node_id, incarnation, world.version, image.feature_level, image.cluster_id)

    nodes = StorageNodes(hello, world.host_id, world.transport)
    lifecycle.on_stop(nodes.close)
    owner = Owner(config.node_id, incarnation)
    coordinator = GroupCoordinator(owner, nodes, world.clock, world.make_machine, lag_series_max=config.lag_series_max)
    await on_built(coordinator)
    await follower.start()
    if peers is not None:
        peers.note_members_of(follower)
    controllers = Controllers(hello, world.host_id, world.transport)
    lifecycle.on_stop(controllers.close)

    def follow(_: ClusterImage, image: ClusterImage) -> None:
        controllers.follow(image)
        coordinator.follow(image)

    follow(follower.image, follower.image)
    follower.subscribe(follow)
    api = GroupsApi(coordinator.shards, world.random, coordinator.meters.answered)
    methods = {ASK: api.ask, **ImageLending(lambda: follower.image).methods}
    server = RpcServer(
        *(hello, methods),
        transport=world.transport,
        on_turn_end=coordinator.shards.end_turn,
        frames_per_turn=FRAMES_PER_TURN,
    )
    member = Member(
        role=GROUP_COORDINATOR,
        node_id=config.node_id,
        incarnation=incarnation,
        host_id=world.host_id,
        unix_address=await server.listen(f"unix:{config.rpc_unix}") if config.rpc_unix else "",
        tcp_address=await server.listen(f"tcp:{config.rpc_tcp}") if config.rpc_tcp else "",
        version=world.version,
        feature_level=FEATURE_LEVEL,
    )
    membership = Membership(store, member, config.member_ttl_s, on_superseded=lambda other: lifecycle.stop(Superseded(other)))
    lifecycle.on_stop(membership.close)
    lifecycle.on_stop(lambda: server.close(DRAIN_S))
    lifecycle.on_stop(coordinator.close)
    lifecycle.on_stop(lambda: hand_over(coordinator, membership, member, follower, config.hand_over_s))
    follower.subscribe(membership.follow)
    coordinator.waits_for = "waits for the metadata store: without it nobody can give shards to this start of the process"

    async def join() -> None:
        await membership.start()
        await follower.until_verified()
        coordinator.waits_for = ""

    watching_lag = asyncio.create_task(coordinator.lag_series.run(), name="lag as metrics")
    lifecycle.on_stop(lambda: _ended(watching_lag))
    joining = asyncio.create_task(join(), name="registration")
    lifecycle.on_stop(lambda: _ended(joining))
    if follower.verified:
        await joining
    else:
        joining.add_done_callback(lambda task: lifecycle.stop(task.exception()) if _failed(task) else None)


def _failed(task: "asyncio.Task[None]") -> bool:
    return not task.cancelled() and task.exception() is not None


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait((task,))
