"""A whole quota manager process, over the environment that it is given."""

import asyncio
from collections.abc import Awaitable, Callable

from libs.cluster import keys
from libs.cluster.election import Election
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import ElectedQuotaManager
from libs.rpc.contracts.quotas import ASK, Ask
from libs.rpc.messages.schema import unpack
from libs.rpc.server.rpc_server import Accept, Hello, RpcServer
from libs.runtime.controllers import Controllers
from libs.runtime.lifecycle import Lifecycle, end_task
from libs.runtime.process import Environment, lent_methods, refuse_newer_cluster
from libs.runtime.registration import Registration
from libs.runtime.starting_anew import start_anew
from services.quota_manager.config import QuotaManagerConfig
from services.quota_manager.quota_manager import QuotaManager


async def serve(
    config: QuotaManagerConfig,
    environment: Environment,
    lifecycle: Lifecycle,
    on_built: Callable[[QuotaManager], Awaitable[None]],
) -> None:
    """Runs a quota manager; returns when it is registered, or with a borrowed image when it answers requests.

    A borrowed image allows no campaign, since an election needs the metadata store. `on_built` is awaited before anything is
    started.
    """
    store, identity, peers = environment.store, environment.identity, environment.peers
    lifecycle.on_stop(store.close)
    follower = ImageFollower(store, peers.newest if peers is not None else None, on_went_back=start_anew(lifecycle.stop))
    lifecycle.on_stop(follower.close)

    def hello() -> Hello:
        return identity.hello(follower.image)

    candidate = ElectedQuotaManager(config.node_id, identity.incarnation)
    election = Election(store, keys.QUOTA_MANAGER, candidate, config.election_ttl_s)
    manager = QuotaManager(follower, election, candidate)
    await on_built(manager)
    await follower.start()
    refuse_newer_cluster(follower.image, identity.version)
    if peers is not None:
        peers.note_members_of(follower)
    answers = {ASK: _answering(manager), **lent_methods(environment, lambda: follower.image)}
    server = RpcServer(hello, answers, transport=environment.transport, denied=environment.denied)
    lifecycle.on_stop(server.close)
    registration = Registration(server, identity.member(), store, config.lease_s, lifecycle.stop)
    manager.registered = lambda: registration.registered
    await registration.listen(config)
    lifecycle.on_stop(registration.leave)
    follower.subscribe(registration.follow)
    controllers = Controllers(hello, identity.host_id, environment.transport)
    lifecycle.on_stop(controllers.close)
    controllers.follow(follower.image)
    follower.subscribe(lambda _, new: controllers.follow(new))
    joining = asyncio.create_task(registration.register(), name="registration")

    async def campaign() -> None:
        await joining
        await follower.until_verified()
        await manager.run()

    campaigning = asyncio.create_task(campaign(), name="quota manager")
    lifecycle.on_stop(lambda: end_task(campaigning))  # a cancelled campaign resigns
    campaigning.add_done_callback(lambda task: None if task.cancelled() else lifecycle.stop(task.exception()))
    if follower.verified:
        await joining


def _answering(manager: QuotaManager) -> Accept:
    return lambda call: call.reply(manager.answer(call.peer, unpack(Ask, call.body)))
