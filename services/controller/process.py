"""A whole controller process, over the environment that it is given."""

import asyncio
from collections.abc import Awaitable, Callable

from libs.cluster import keys
from libs.cluster.election import Election
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import NO_MARK, STORAGE, ElectedController
from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.server.call import Peer
from libs.rpc.server.rpc_server import Hello, RpcServer
from libs.runtime.controllers import Controllers
from libs.runtime.lifecycle import CannotRun, Lifecycle, end_task
from libs.runtime.process import Environment, lent_methods, refuse_newer_cluster, span_recorder
from libs.runtime.registration import Registration
from libs.runtime.starting_anew import start_anew
from services.controller.administration.administration import Administration
from services.controller.administration.first_users import read_users
from services.controller.api import methods
from services.controller.config import ControllerConfig
from services.controller.controller import Candidacy, Controller, ControllerSettings
from services.controller.core.administration.first_users import Users, WrongUser
from services.controller.core.topics.replica_assignment import Limits
from services.controller.elections.election_traces import ElectionTraces
from services.controller.elections.log_end_survey import LogSurvey
from services.controller.failure_detection.eviction import ControllerEviction, MemberEviction
from services.controller.failure_detection.failure_detector import FailureDetector


async def serve(
    config: ControllerConfig, environment: Environment, lifecycle: Lifecycle, on_built: Callable[[Controller], Awaitable[None]]
) -> None:
    """Runs a controller; returns when it campaigns.

    With a borrowed image it returns when it watches members: only an image of the store itself allows a campaign. `on_built` is
    awaited before anything is started.
    """
    store, identity, peers = environment.store, environment.identity, environment.peers
    lifecycle.on_stop(store.close)
    on_went_back = start_anew(lifecycle.stop, environment.marks)
    follower = ImageFollower(store, peers.newest if peers is not None else None, on_went_back=on_went_back)
    lifecycle.on_stop(follower.close)
    candidate = ElectedController(config.node_id, identity.incarnation)

    def hello() -> Hello:
        return identity.hello(follower.image)

    def connect(address: str, node_id: int) -> RpcClient:
        return RpcClient(address, hello, environment.transport, expected=(STORAGE, node_id))

    recorder = span_recorder(identity, environment.tracing, environment.clock)
    traces = ElectionTraces(recorder, asyncio.get_running_loop().time)
    failure_detector = FailureDetector(
        follower, environment.transport, identity.host_id, config.node_id, round(1000 * config.silence_s)
    )
    controller = Controller(
        store,
        follower,
        Candidacy(Election(store, keys.CONTROLLER, candidate, config.election_ttl_s), candidate),
        Administration(environment.random, Limits(partitions_per_request=config.request_partitions_max)),
        environment.random,
        LogSurvey(connect, identity.host_id),
        environment.clock,
        settings=ControllerSettings(config.cluster_defaults, config.patience_s),
        traces=traces,
        eviction=MemberEviction(failure_detector, traces.dead),
        seen=environment.marks.former if environment.marks is not None else NO_MARK,
    )
    failure_detector.report_elected(lambda: controller.elected)
    await on_built(controller)
    await follower.start()
    refuse_newer_cluster(follower.image, identity.version)
    if config.add_scram_file and not follower.image.cluster_id:
        controller.first_users = _first_users(config.add_scram_file)
    if peers is not None:
        peers.note_members_of(follower)
    answers = {**methods(controller, failure_detector), **lent_methods(environment, lambda: follower.image)}

    def connection_lost(peer: Peer) -> None:
        if peer.role == STORAGE:
            traces.disconnected(peer.node_id)
        failure_detector.connection_lost(peer)

    server = RpcServer(hello, answers, transport=environment.transport, on_lost=connection_lost, denied=environment.denied)
    lifecycle.on_stop(server.close)
    registration = Registration(server, identity.member(), store, config.lease_s, lifecycle.stop)
    controller.registered = lambda: registration.registered
    await registration.listen(config)
    lifecycle.on_stop(registration.leave)
    follower.subscribe(registration.follow)
    joining = asyncio.create_task(registration.register(), name="registration")
    if follower.verified:
        await joining
    controllers = Controllers(hello, identity.host_id, environment.transport)
    lifecycle.on_stop(controllers.close)
    controller.watch_denials(controllers.denies)
    controllers.follow(follower.image)
    follower.subscribe(lambda _, new: controllers.follow(new))
    failure_detector.start()

    async def campaign() -> None:
        await joining
        await follower.until_verified()
        if environment.marks is not None:
            environment.marks.follow(follower.image, follower.image)
            follower.subscribe(environment.marks.follow)
            lifecycle.on_stop(environment.marks.close)
        controller_eviction = asyncio.create_task(ControllerEviction(store, follower, failure_detector).run(), name="succession")
        try:
            await controller.run()
        finally:
            await end_task(controller_eviction)

    lifecycle.on_stop(failure_detector.close)
    campaigning = asyncio.create_task(campaign(), name="controller")
    lifecycle.on_stop(lambda: end_task(campaigning))  # a cancelled campaign resigns
    campaigning.add_done_callback(lambda task: None if task.cancelled() else lifecycle.stop(task.exception()))


def _first_users(path: str) -> Users:
    """Raises CannotRun: a cluster without them may have nobody who could log in."""
    try:
        return read_users(path)
    except WrongUser as error:
        raise CannotRun("the first users cannot be set (PENSTOCK_ADD_SCRAM_FILE)", reason=error) from error
