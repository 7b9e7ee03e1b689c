"""The gateway as one object. It makes every part once, hands each new cluster image to them, and starts and stops them.

It implements `GatewayState`, the only view of it that handlers have.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from libs.clock import Clock
from libs.cluster.health import REFUSED_CLIENTS, Health, health_of
from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import CONTROLLER, GATEWAY, GROUP_COORDINATOR, QUOTA_MANAGER, STORAGE, TRANSACTION_COORDINATOR
from libs.rpc.client.rpc_client import Hello, Response, RpcClient
from libs.rpc.contracts.controller import ALLOCATE_PRODUCER_IDS, AllocateProducerIds, Finding, ProducerIdBlock
from libs.rpc.messages.errors import ContractError, DeadlineExceeded, Overloaded, RpcError, RpcFailure
from libs.rpc.messages.schema import unpack
from libs.rpc.server.rpc_server import RpcServer
from libs.runtime.process import Environment, lent_methods, refuse_newer_cluster, span_recorder
from libs.runtime.producer_ids import ProducerIds
from libs.runtime.registration import Registration
from libs.runtime.starting_anew import start_anew
from libs.runtime.tracing.trace_answers import OtherProcesses, TraceViews
from libs.runtime.unused_producer_ids import UnusedProducerIds
from libs.telemetry.logs import fields
from libs.telemetry.metrics import Metrics
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from services.gateway.appends.leader_appends import LeaderAppends
from services.gateway.authorization.acl_findings import AclFindings
from services.gateway.authorization.authorization import Authorization
from services.gateway.config import GatewayConfig
from services.gateway.core.addresses import broker_ids as broker_ids_of
from services.gateway.core.answer_budget import AnswerBudget
from services.gateway.core.authorizer_settings import settings_digest, super_users
from services.gateway.core.connection_configs import ConnectionConfigs
from services.gateway.core.connection_limits import ConnectionLimits
from services.gateway.core.coordinator_shards import GROUPS, NO_BROKER, TRANSACTIONS, CoordinatorShards
from services.gateway.core.descriptor_shares import share_descriptors
from services.gateway.core.fenced_brokers import FencedBrokers
from services.gateway.core.quota_slices import QuotaSlices
from services.gateway.core.routing import Routes
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.request_context import ControllerUnavailable, NodeUnavailable, RequestContext, TracedCall
from services.gateway.exchange.request_traces import RequestTraces
from services.gateway.fetch.pending_fetch import PendingFetch
from services.gateway.gateway_meters import GatewayMeters
from services.gateway.groups.relay import acl_host, java_address
from services.gateway.net.client_drain import drain_clients, other_gateways_serve, wait_until_removed
from services.gateway.net.client_listeners import ClientListeners
from services.gateway.net.connection_views import ConnectionViews
from services.gateway.net.connections import Connections
from services.gateway.net.stale_clients import StaleClients
from services.gateway.peers.coordinator_request import COORDINATOR_LOAD_IN_PROGRESS, CoordinatorQuery, Payload
from services.gateway.peers.coordinators import Coordinators
from services.gateway.peers.delayed_requests import DelayedRequests
from services.gateway.peers.file_descriptors import Files
from services.gateway.peers.log_layouts import LogLayouts
from services.gateway.peers.moved_endpoints import MovedEndpoints
from services.gateway.peers.peer_gateways import PeerGateways
from services.gateway.peers.quota_manager import QuotaManager
from services.gateway.peers.scram_credentials import CredentialFollower
from services.gateway.peers.storage_nodes import Nodes
from services.gateway.requests.client_quotas import ClientQuotas
from services.gateway.shortcuts.single_list_offsets import SingleListOffsets

log = logging.getLogger("network")

T = TypeVar("T")

NOT_CONTROLLER = int(ErrorCode.NOT_CONTROLLER)
FOLLOW_CONTROLLER_S = 0.05
PRODUCER_IDS_S_MAX = 5.0
LISTINGS_MAX = 4
"""The listings of groups and transactional ids at a time. Each holds its shards' answers, and a copy of them. The frame with its
header, one copy more, is made afterwards."""


class Gateway:
    """One gateway process. Call `start`, later `stop`. The constructor needs a running event loop."""

    def __init__(
        self,
        config: GatewayConfig,
        world: Environment,
        metrics: Metrics,
        *,
        die: Callable[[BaseException], None],
        descriptors_max: int,
        spare_ids: UnusedProducerIds | None = None,
        broker_ids: frozenset[int] | None = None,
    ) -> None:
        """`die` ends the process. It is called when the gateway can serve no client any more. `descriptors_max`: the limit of
        this process. `broker_ids`: those whose ports it has. None: all, and the bootstrap port."""
        self._config = config
        identity, transport = world.identity, world.transport
        self._identity = identity
        self._clock = world.clock
        self.has_authorizer = bool(config.authorizer)
        self.listings = asyncio.Semaphore(LISTINGS_MAX)
        self._peers = peers = world.peers
        self._follower = ImageFollower(world.store, peers.newest if peers is not None else None, on_went_back=start_anew(die))
        self.meters = GatewayMeters(metrics, world.clock)
        self.meters.answers = AnswerBudget(config.unread_answer_bytes_max)

        def hello() -> Hello:
            return identity.hello(self.image)

        self._nodes = Nodes(hello, identity.host_id, transport, self._storage_node_ready)
        self._coordinators = Coordinators(GROUPS, hello, identity.host_id, transport)
        self._transaction_coordinators = Coordinators(TRANSACTIONS, hello, identity.host_id, transport)
        self._peer_gateways = PeerGateways(config.node_id, hello, identity.host_id, transport, self._peer_gateways_ended)
        routes = Routes(self.image)
        recorder = span_recorder(identity, world.tracing, world.clock)
        metrics.watch_spans(recorder)
        traces = RequestTraces(recorder)
        self._appends = LeaderAppends(self._nodes, routes, self.meters, traces, parked_bytes_max=config.parked_bytes_max)
        self._fenced_brokers = FencedBrokers(config.fenced_broker_s_max)
        shares = share_descriptors(descriptors_max, open_files_max=config.open_files_max)
        self._files = Files(shares.open_files_max, config.open_file_idle_s, world.transport.passed_files)
        self._authorization = self._with_authorizer() if config.authorizer else None
        authorizer = settings_digest(config.authorizer, config.super_users, allow_if_no_acl=config.allow_everyone_if_no_acl_found)
        self._acl_findings = AclFindings(config.node_id, world.clock.wall_ms, authorizer=authorizer)
        now = asyncio.get_running_loop().time
        log_layouts = LogLayouts(self._nodes, now)
        self._moved_endpoints = MovedEndpoints(now)
        self.data_path = DataPath(
            config=config,
            routes=routes,
            nodes=self._nodes,
            coordinators=self._coordinators,
            transaction_coordinators=self._transaction_coordinators,
            appends=self._appends,
            files=self._files,
            log_layouts=log_layouts,
            meters=self.meters,
            answers=self.meters.answers,
            delayed_requests=DelayedRequests(),
            orders=self._appends.orders,
            now=now,
            traces=traces,
            authorization=self._authorization,
        )
        limits = ConnectionLimits(shares.connections, ConnectionConfigs(config.connection_configs, config.first_listener))
        slices = QuotaSlices(now())
        self._quotas = ClientQuotas(slices, self.meters, now)
        self._quota_manager = QuotaManager(slices, hello, identity.host_id, transport, die)
        self._quotas.on_need = self._quota_manager.wake
        self._clients_of: dict[str, Callable[[int], RpcClient | None]] = {
            STORAGE: self._nodes.client,
            CONTROLLER: self._nodes.controller_client,
            GROUP_COORDINATOR: self._coordinators.client,
            TRANSACTION_COORDINATOR: self._transaction_coordinators.client,
            QUOTA_MANAGER: self._quota_manager.client,
        }
        self.connections = Connections(config, self, self.data_path, self.meters, limits, self._quotas)
        self._nodes.report_findings(self._findings)
        self.connection_views = ConnectionViews(self.connections)
        self._producer_ids = ProducerIds(self._allocate_producer_ids, spare_ids)
        self.credentials = CredentialFollower(world.store)
        self.listeners = ClientListeners(
            config, transport, self.connections, self.credentials, self.meters, world.clock, broker_ids
        )
        self._stale_clients = StaleClients(self.connections, self.listeners.own)
        server = RpcServer(hello, lent_methods(world, lambda: self.image), transport=transport, denied=world.denied)
        others = OtherProcesses(identity.name, lambda: self.image, hello, identity.host_id, transport)
        self.traces = TraceViews(identity.name, world.tracing.ring, others)
        member = replace(identity.member(), rack=config.rack, listeners=self.listeners.own, authorizer=authorizer)
        member = replace(member, broker_ids=tuple(sorted(broker_ids or ())))
        self._registration = Registration(server, member, world.store, config.lease_s, die)
        self._joining: asyncio.Task[None] | None = None
        self._die = die
        self._started = False

    def _with_authorizer(self) -> Authorization:
        config = self._config
        return Authorization(
            super_users(config.super_users),
            allow_if_no_acl=config.allow_everyone_if_no_acl_found,
            host_of=acl_host,
            timers=asyncio.get_running_loop(),
        )

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Loads the image, opens the ports, and then registers, so that no client is sent here too early.

        Raises OSError for a port that is taken.

        A gateway that borrowed a peer's image serves clients before it is registered. Registration needs the metadata store, and
        clients of this gateway's last incarnation connect to the same ports.
        """
        await self._follower.start()
        refuse_newer_cluster(self.image, self._identity.version)
        self._follow(self.image, self.image)
        self._follower.subscribe(self._follow)
        if self._peers is not None:
            self._peers.note_members_of(self._follower)
        await self.listeners.start(broker_ids_of(self.image))
        await self._registration.listen(self._config)
        self._follower.subscribe(self._registration.follow)
        self._joining = asyncio.get_running_loop().create_task(self._join(), name="registration")
        if self._follower.verified:
            await self._joining
        else:
            self._joining.add_done_callback(self._joined)
        self._producer_ids.prefetch()
        self._started = True

    async def _join(self) -> None:
        await self._registration.register()
        await self._wait_until_in_image()

    def _joined(self, joining: "asyncio.Task[None]") -> None:
        if not joining.cancelled() and (error := joining.exception()) is not None:
            self._die(error)

    async def _wait_until_in_image(self) -> None:
        """Returns when the image contains this gateway. Until then it and the other gateways would give one client different
        addresses for the same broker."""
        config = self._config
        while (
            own_member := self.image.members(GATEWAY).get(config.node_id)
        ) is None or own_member.incarnation != self._identity.incarnation:
            changed = asyncio.Event()
            unsubscribe = self._follower.subscribe(lambda _old, _new, changed=changed: changed.set())  # type: ignore[misc]
            try:
                await changed.wait()
            finally:
                unsubscribe()

    def _findings(self) -> Sequence[Finding]:
        """What heartbeats tell operators, of a cluster that may be healthy otherwise."""
        found = self._acl_findings.findings()
        now = self.data_path.now()
        since = self.connections.full.since(now)
        if since is None:
            return found
        since_ms = self._clock.wall_ms() - round((now - since) * 1000)
        return (*found, Finding(REFUSED_CLIENTS, str(self._config.node_id), since_ms))

    def health(self) -> Health:
        return health_of(self.image, current=self._registration.registered)

    def ready(self) -> tuple[bool, str]:
        if self.data_path.leaving:
            return False, "stopping"
        if self._registration.superseded_by is not None:
            return False, f"another process runs as gateway {self._config.node_id}"
        if not self._started:
            return False, "waiting for the cluster image, the ports or the registration"
        return True, "ready" if self._follower.verified else f"ready, with a peer's metadata of revision {self.image.revision}"

    async def stop(self) -> None:
        """Leaves Metadata, drains clients to other gateways, accepts no more, answers outstanding requests, and closes."""
        self.data_path.leaving = True
        self._stale_clients.close()
        others = (
            other_gateways_serve(self.image, self._config.node_id)
            and self._registration.superseded_by is None
            and not self._follower.store_went_back
        )
        if self._joining is not None:
            self._joining.cancel()
        await self._registration.leave()
        if others and await wait_until_removed(self._follower, self._config.node_id, self._identity.incarnation):
            await drain_clients(self.connections)
        self.listeners.close()
        self._coordinators.leave()
        self._transaction_coordinators.leave()
        await self.connections.drain()
        await self.listeners.closed()
        self._producer_ids.close()
        self._appends.close()
        self.data_path.delayed_requests.close()
        await self._nodes.close()
        await self._coordinators.close()
        await self._transaction_coordinators.close()
        await self._peer_gateways.close()
        await self._quota_manager.close()
        self._files.close()
        await self._registration.server.close(drain_s=0.0)
        await self._follower.close()

    def debug(self) -> dict[str, object]:
        """The gateway's part of `/debug` on the admin port."""
        return {
            "revision": self.image.revision,
            "verified": self._follower.verified,
            "connections": len(self.connections),
            "connection_limits": self.connections.limits_debug(),
            "receive_chunk_bytes": self.connections.chunk_bytes,
            "broker_ids": sorted(self.listeners.broker_ids),
            "open_files": len(self._files),
            "parked_bytes": self._appends.parked.bytes,
            "groups": self._coordinators.debug(),
            "transactions": self._transaction_coordinators.debug(),
            "quotas": self._quotas.slices.debug(self.data_path.now()),
        }

    def on_members(self, call: Callable[[Collection[int]], None]) -> None:
        """Calls it with the node ids of the gateways that are members, whenever these change."""

        def follow(old: ClusterImage, new: ClusterImage) -> None:
            if (members := new.members(GATEWAY)) is not old.members(GATEWAY):
                call(members.keys())

        self._follower.subscribe(follow)

    async def register_broker_ids(self, broker_ids: Collection[int]) -> None:
        """Tells the other gateways whose ports this one has. Returns once it is written."""
        await self._registration.update(broker_ids=tuple(sorted(broker_ids)))

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Hands a new image to every part. RPC clients come first, so that parked batches find the connection to their leader."""
        for node_id, member in new.members(STORAGE).items():
            before = old.members(STORAGE).get(node_id)
            if before is not None and before.incarnation != member.incarnation:
                self._files.forget(node_id, member.incarnation)
        self._fenced_brokers.follow(new, self._clock.monotonic())
        self._nodes.follow(new)
        self._peer_gateways.follow(new)
        self.connections.follow(new)
        if self._authorization is not None:
            self._authorization.follow(new)
        self._acl_findings.follow(new)
        routes = Routes(new, self.data_path.routes, self._peer_gateways.gone)
        self._take_routes(routes)
        partitions_changed = next(new.partition_changes_since(old), None) is not None
        self._appends.follow(routes, partitions_changed=partitions_changed)
        if partitions_changed:
            self._follow_reads()
        self._coordinators.follow(new)
        self._transaction_coordinators.follow(new)
        if self._quotas.follow(new):
            self.connections.look_at_mutes()
        self._quota_manager.follow(new, is_limited=self._quotas.configured)
        self.data_path.delayed_requests.retry_all()
        if self._started:
            self.listeners.follow(broker_ids_of(new))

    def _peer_gateways_ended(self) -> None:
        self._take_routes(Routes(self.image, self.data_path.routes, self._peer_gateways.gone))

    def _take_routes(self, routes: Routes) -> None:
        if routes.addresses is not self.data_path.routes.addresses:
            self._moved_endpoints.note(self.data_path.routes.addresses)
            self._stale_clients.addresses_changed()
        self.data_path.follow(routes)

    def _follow_reads(self) -> None:
        for node in self._nodes.known():
            for _, callback in node.client.in_flight():
                if isinstance(callback, (PendingFetch, SingleListOffsets)):
                    callback.follow()

    def _storage_node_ready(self, node_id: int) -> None:
        log.info("storage node connected", extra=fields(node=node_id))
        self._appends.retry()
        self.data_path.delayed_requests.retry_all()

    # --- GatewayState: what handlers may call -------------------------------------------------------------------------

    @property
    def image(self) -> ClusterImage:
        return self._follower.image

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def gateway_id(self) -> int:
        return self._config.node_id

    async def controller(self, method: str, body: object, reply_type: type[T], *, timeout_s: float) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        reason = "no elected controller"
        while (left_s := deadline - loop.time()) > 0:
            client = self._nodes.controller()
            if client is not None:
                try:
                    response: Response = await client.call(method, body, timeout_s=left_s)
                    return unpack(reply_type, response.body)
                except RpcError as error:
                    if error.code != NOT_CONTROLLER:
                        raise
                    reason = "it is not the elected controller"
                except RpcFailure as error:
                    reason = str(error)
                    if error.sent:
                        break
                except ContractError as error:
                    raise ControllerUnavailable(str(error)) from error
            await asyncio.sleep(min(FOLLOW_CONTROLLER_S, max(0.0, deadline - loop.time())))
        raise ControllerUnavailable(reason)

    async def controller_revisions(self) -> dict[int, int]:
        return await self._nodes.controller_revisions()

    async def storage(
        self,
        node_id: int,
        method: str,
        body: object,
        reply_type: type[T],
        *,
        timeout_s: float,
        asked: TracedCall | None = None,
    ) -> T:
        return await _reply(node_id, self._client(STORAGE, node_id), method, body, reply_type, timeout_s, asked)

    async def member(self, role: str, node_id: int, method: str, body: object, reply_type: type[T], *, timeout_s: float) -> T:
        return await _reply(node_id, self._client(role, node_id), method, body, reply_type, timeout_s)

    def _client(self, role: str, node_id: int) -> RpcClient:
        client = self._clients_of[role](node_id)
        if client is None:
            raise NodeUnavailable(node_id, "unknown", sent=False)
        return client

    async def group_coordinator(self, shard: int, method: str, body: object, reply_type: type[T], *, timeout_s: float) -> T:
        owner = self._coordinators.owner(shard)
        if owner is None:
            raise NodeUnavailable(NO_BROKER, f"nobody owns shard {shard}", sent=False)
        return await _reply(owner.node_id, owner.client, method, body, reply_type, timeout_s)

    @property
    def shards(self) -> CoordinatorShards:
        return self._coordinators.shards

    @property
    def transaction_shards(self) -> CoordinatorShards:
        return self._transaction_coordinators.shards

    async def ask_coordinator(self, shard: int, api_key: int, body: bytes, context: RequestContext) -> tuple[int, Payload]:
        result: asyncio.Future[tuple[int, Payload]] = asyncio.get_running_loop().create_future()

        def on_result(error: int, payload: Payload) -> None:
            if not result.done():
                result.set_result((error, payload))

        host = java_address(context.client_host)
        query = CoordinatorQuery(shard, APIS[ApiKey(api_key)], context.api_version, body, context.client_id, host)
        request = self.data_path.coordinators_for(api_key).ask(query, on_result)
        if request is None:
            return COORDINATOR_LOAD_IN_PROGRESS, b""
        try:
            return await result
        finally:
            request.cancel()

    async def wait_for_revision(self, revision: int, timeout_s: float) -> bool:
        try:
            await self._follower.wait_for(revision, timeout_s)
        except TimeoutError:
            return False
        return True

    async def probe_peer_gateways(self) -> None:
        await self._peer_gateways.probe()

    def broker_endpoint(self, node_id: int, context: RequestContext) -> tuple[str, int] | None:
        listener = self.data_path.routes.addresses.of(node_id, context.client_host, context.listener)
        if listener is None and not self._follower.verified:
            listener = self.listeners.named(context.listener)  # the peer that lent its image took this gateway for dead
        return None if listener is None else (listener.host, listener.port_base + node_id)

    def lists_fenced_broker(self, node_id: int) -> bool:
        return self._fenced_brokers.is_listed(node_id, self._clock.monotonic())

    def broker_moved(self, node_id: int, key: str, context: RequestContext) -> bool:
        addresses = self.data_path.routes.addresses
        return self._moved_endpoints.must_notify(addresses, node_id, context.client_host, context.peer, context.listener, key)

    async def next_producer_id(self) -> int:
        return await self._producer_ids.next()

    async def _allocate_producer_ids(self) -> ProducerIdBlock:
        return await self.controller(ALLOCATE_PRODUCER_IDS, AllocateProducerIds(), ProducerIdBlock, timeout_s=PRODUCER_IDS_S_MAX)


async def _reply(
    node_id: int,
    client: RpcClient,
    method: str,
    body: object,
    reply_type: type[T],
    timeout_s: float,
    asked: TracedCall | None = None,
) -> T:
    """Raises RpcError and NodeUnavailable."""
    try:
        call = client.call(method, body, timeout_s=timeout_s, trace=asked.packed if asked is not None else None)
        if asked is not None:
            asked.sent(node_id, client, call.request_id, call)
        response = await call
        return unpack(reply_type, response.body)
    except RpcError:
        raise
    except Overloaded as error:
        raise NodeUnavailable(node_id, str(error), sent=False) from error
    except RpcFailure as error:
        late = error.sent and isinstance(error, DeadlineExceeded)
        raise NodeUnavailable(node_id, str(error), sent=error.sent, late=late) from error
    except ContractError as error:
        raise NodeUnavailable(node_id, str(error)) from error
