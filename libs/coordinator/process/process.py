"""A whole coordinator process, over the environment that it is given: what is the same for all kinds of coordinators.

**While the metadata store is away** a running coordinator goes on. It needs the store for nothing, and the leaders of its
partitions fence it. A coordinator that starts uses a peer's image, as gateways do, and lends it to others. But it is another
owner than its former incarnation. So it owns nothing until the controller, which needs the store, assigns shards to it. Until
then it answers NOT_COORDINATOR, and is not ready.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.shard_owners import Owner
from libs.coordinator.process.findings import Findings
from libs.coordinator.process.shard_handover import hand_over_shards
from libs.coordinator.shards.shard_set import ShardSet
from libs.coordinator.tracing.call_spans import CallSpans
from libs.rpc.contracts.controller import Finding
from libs.rpc.server.rpc_server import Accept, Hello, RpcServer
from libs.runtime.controllers import Controllers
from libs.runtime.lifecycle import Lifecycle, end_task
from libs.runtime.process import Environment, lent_methods, refuse_newer_cluster, span_recorder
from libs.runtime.registration import Registration
from libs.runtime.service_config import ServiceConfig
from libs.runtime.starting_anew import start_anew
from libs.runtime.storage_nodes import StorageNodes
from libs.telemetry.tracing.recorder import SpanRecorder

DRAIN_S: Final = 2.0
FRAMES_PER_TURN: Final = 16
"""Frames of a connection per turn: some milliseconds of work. When many clients send requests at once, the first are answered
while the last still wait. So their next requests are spread out: clients that are answered together come back together."""


class Coordinator(Protocol):
    """The shards of one process, and what their machines read."""

    shards: ShardSet[Any, Any, Any]
    registered: Callable[[], bool]
    waits_for: str
    """Why it is not ready. Empty once it is registered."""

    def follow(self, image: ClusterImage) -> None: ...

    def findings(self) -> Iterable[Finding]:
        """What an operator should know, in any order. It looks at a bounded number of groups or transactions."""
        ...

    async def close(self) -> None: ...


class Requests(Protocol):
    """The RPC methods of a coordinator. They get each image after the coordinator has it."""

    @property
    def methods(self) -> Mapping[str, Accept]: ...

    def follow(self, image: ClusterImage) -> None: ...

    async def close(self) -> None: ...


class BuildContext(NamedTuple):
    """What a process knows when it builds its own objects."""

    owner: Owner
    nodes: StorageNodes
    controllers: Controllers
    hello: Callable[[], Hello]
    recorder: SpanRecorder
    spans: CallSpans


Build = Callable[[BuildContext], Awaitable[tuple[Coordinator, Requests]]]
"""Builds a process's own objects. It is awaited before anything is started."""


async def serve(
    config: ServiceConfig, environment: Environment, lifecycle: Lifecycle, build: Build, *, hand_over_s: float
) -> None:
    """Runs a coordinator; returns when it is registered, or with a borrowed image when it answers requests.

    At the end it hands over its shards, answers requests in flight, closes connections and ends its registration.
    """
    store, identity, peers = environment.store, environment.identity, environment.peers
    lifecycle.on_stop(store.close)
    follower = ImageFollower(store, peers.newest if peers is not None else None, on_went_back=start_anew(lifecycle.stop))
    lifecycle.on_stop(follower.close)

    def hello() -> Hello:
        return identity.hello(follower.image)

    nodes = StorageNodes(hello, identity.host_id, environment.transport)
    lifecycle.on_stop(nodes.close)
    controllers = Controllers(hello, identity.host_id, environment.transport, nodes.unreachable)
    lifecycle.on_stop(controllers.close)
    now, recorder = asyncio.get_running_loop().time, span_recorder(identity, environment.tracing, environment.clock)
    spans = CallSpans(recorder, now)
    owner = Owner(config.node_id, identity.incarnation)
    coordinator, requests = await build(BuildContext(owner, nodes, controllers, hello, recorder, spans))
    controllers.report_findings(Findings(coordinator.findings, now).newest)
    await follower.start()
    refuse_newer_cluster(follower.image, identity.version)
    if peers is not None:
        peers.note_members_of(follower)

    def follow(_: ClusterImage, image: ClusterImage) -> None:
        controllers.follow(image)
        coordinator.follow(image)
        requests.follow(image)

    follow(follower.image, follower.image)
    follower.subscribe(follow)
    server = RpcServer(
        hello,
        {**requests.methods, **lent_methods(environment, lambda: follower.image)},
        transport=environment.transport,
        on_turn_end=coordinator.shards.end_turn,
        frames_per_turn=FRAMES_PER_TURN,
        denied=environment.denied,
    )
    registration = Registration(server, identity.member(), store, config.lease_s, lifecycle.stop)
    coordinator.registered = lambda: registration.registered
    await registration.listen(config)
    lifecycle.on_stop(registration.leave)
    lifecycle.on_stop(lambda: server.close(DRAIN_S))
    lifecycle.on_stop(requests.close)
    lifecycle.on_stop(coordinator.close)
    lifecycle.on_stop(lambda: hand_over_shards(coordinator.shards, registration, follower, hand_over_s))
    follower.subscribe(registration.follow)
    coordinator.waits_for = "waits for the metadata store: without it nobody can give shards to this start of the process"

    async def join() -> None:
        await registration.register()
        await follower.until_verified()
        coordinator.waits_for = ""

    joining = asyncio.create_task(join(), name="registration")
    lifecycle.on_stop(lambda: end_task(joining))
    if follower.verified:
        await joining
    else:
        joining.add_done_callback(lambda task: lifecycle.stop(task.exception()) if _failed(task) else None)


def _failed(task: "asyncio.Task[None]") -> bool:
    return not task.cancelled() and task.exception() is not None
