"""A whole group coordinator process, over the environment that it is given.

**While the metadata store is away** a running coordinator goes on. It needs the store for nothing, and the leaders of its
partitions fence it. A coordinator that starts uses a peer's image, as gateways do, and lends it to others. But it is another
owner than its former incarnation. So it owns nothing until the controller, which needs the store, assigns shards to it. Until
then it answers NOT_COORDINATOR, and is not ready.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.shard_owners import Owner
from libs.rpc.contracts.groups import ASK
from libs.rpc.server import Hello, RpcServer
from libs.runtime.controllers import Controllers
from libs.runtime.lifecycle import Lifecycle, end_task
from libs.runtime.peers import ImageLending
from libs.runtime.process import Environment
from libs.runtime.registration import Registration
from libs.runtime.starting_anew import start_anew
from libs.runtime.storage_nodes import StorageNodes
from services.group_coordinator.config import GroupCoordinatorConfig
from services.group_coordinator.coordinator import GroupCoordinator, MakeMachine, group_machine
from services.group_coordinator.protocol.group_requests import GroupRequests
from services.group_coordinator.shard_handover import hand_over_shards

FEATURE_LEVEL = 1
DRAIN_S = 2.0
FRAMES_PER_TURN = 16
"""Frames of a connection per turn: some milliseconds of work. When all members of a large group send requests at once, the first
are answered while the last still wait. So their next requests are spread out: members that are answered together come back
together."""


async def serve(
    config: GroupCoordinatorConfig,
    environment: Environment,
    lifecycle: Lifecycle,
    on_built: Callable[[GroupCoordinator], Awaitable[None]],
    make_machine: MakeMachine = group_machine,
) -> None:
    """Runs a coordinator; returns when it is registered, or with a borrowed image when it answers requests.

    `on_built` is awaited before anything is started. At the end it hands over its shards, answers requests in flight, closes
    connections and ends its registration.
    """
    store, identity, peers = environment.store, environment.identity, environment.peers
    lifecycle.on_stop(store.close)
    follower = ImageFollower(store, peers.newest if peers is not None else None, on_went_back=start_anew(lifecycle.stop))
    lifecycle.on_stop(follower.close)

    def hello() -> Hello:
        return identity.hello(follower.image)

    nodes = StorageNodes(hello, identity.host_id, environment.transport)
    lifecycle.on_stop(nodes.close)
    owner = Owner(config.node_id, identity.incarnation)
    coordinator = GroupCoordinator(owner, nodes, environment.clock, make_machine, lag_series_max=config.lag_series_max)
    await on_built(coordinator)
    await follower.start()
    if peers is not None:
        peers.note_members_of(follower)
    controllers = Controllers(hello, identity.host_id, environment.transport, nodes.unreachable)
    lifecycle.on_stop(controllers.close)

    def follow(_: ClusterImage, image: ClusterImage) -> None:
        controllers.follow(image)
        coordinator.follow(image)

    follow(follower.image, follower.image)
    follower.subscribe(follow)
    api = GroupRequests(coordinator.shards, environment.random, coordinator.meters.answered)
    api.follow(follower.image)
    follower.subscribe(lambda _, image: api.follow(image))
    methods = {ASK: api.ask, **ImageLending(lambda: follower.image).methods}
    server = RpcServer(
        hello,
        methods,
        transport=environment.transport,
        on_turn_end=coordinator.shards.end_turn,
        frames_per_turn=FRAMES_PER_TURN,
    )
    member = replace(identity.member(), feature_level=FEATURE_LEVEL)
    registration = Registration(server, member, store, config.member_ttl_s, lifecycle.stop)
    coordinator.registered = lambda: registration.registered
    await registration.listen(config)
    lifecycle.on_stop(registration.leave)
    lifecycle.on_stop(lambda: server.close(DRAIN_S))
    lifecycle.on_stop(api.close)
    lifecycle.on_stop(coordinator.close)
    lifecycle.on_stop(lambda: hand_over_shards(coordinator, registration, follower, config.hand_over_s))
    follower.subscribe(registration.follow)
    coordinator.waits_for = "waits for the metadata store: without it nobody can give shards to this start of the process"

    async def join() -> None:
        await registration.register()
        await follower.until_verified()
        coordinator.waits_for = ""

    watching_lag = asyncio.create_task(coordinator.lag_series.run(), name="lag as metrics")
    lifecycle.on_stop(lambda: end_task(watching_lag))
    joining = asyncio.create_task(join(), name="registration")
    lifecycle.on_stop(lambda: end_task(joining))
    if follower.verified:
        await joining
    else:
        joining.add_done_callback(lambda task: lifecycle.stop(task.exception()) if _failed(task) else None)


def _failed(task: "asyncio.Task[None]") -> bool:
    return not task.cancelled() and task.exception() is not None
