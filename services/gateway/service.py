"""The gateway: everything that is made once, how it follows the cluster image, and how it starts and stops.

Implements `GatewayState`, which is all that handlers see of it.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import TypeVar

from libs.clock import Clock
from libs.cluster.follower import ImageFollower
from libs.cluster.image import ClusterImage
from libs.cluster.membership import Superseded
from libs.cluster.records import GATEWAY, STORAGE, Member
from libs.cluster.store import MetadataStore
from libs.rpc.client import Hello, Response
from libs.rpc.contracts.controller import ALLOCATE_PRODUCER_IDS, AllocateProducerIds, ProducerIdBlock
from libs.rpc.errors import ContractError, Overloaded, RpcError, RpcFailure
from libs.rpc.schema import unpack
from libs.rpc.transport import Transport
from libs.runtime.peers import ImageLending, Peers
from libs.telemetry.logs import fields
from libs.telemetry.metrics import Metrics
from libs.wire.errors import ErrorCode
from services.gateway.appends import Appends
from services.gateway.asking import LOADING, Payload, Question
from services.gateway.config import GatewayConfig
from services.gateway.connections import Connections
from services.gateway.coordinators import Coordinators
from services.gateway.core.addresses import broker_ids
from services.gateway.core.routing import Routes
from services.gateway.core.shards import Shards
from services.gateway.data_path import DataPath
from services.gateway.departure import others_serve, see_off, unnamed
from services.gateway.files import Files
from services.gateway.listeners import Listeners
from services.gateway.meters import Meters
from services.gateway.moves import Moves
from services.gateway.neighbours import Neighbours
from services.gateway.nodes import Nodes
from services.gateway.outlines import Outlines
from services.gateway.pending_fetch import PendingFetch
from services.gateway.presence import Presence
from services.gateway.producer_ids import ProducerIds
from services.gateway.relay import java_address
from services.gateway.spare_ids import SpareIds
from services.gateway.state import ControllerUnavailable, NodeUnavailable, RequestContext
from services.gateway.unready import Unready

log = logging.getLogger(__name__)

T = TypeVar("T")

NOT_CONTROLLER = int(ErrorCode.NOT_CONTROLLER)
FOLLOW_CONTROLLER_S = 0.05
PRODUCER_IDS_S_MAX = 5.0


class Gateway:
    """Call `start`, later `stop`. Needs a running loop from its making on."""

    def __init__(
        self,
        config: GatewayConfig,
        *,
        clock: Clock,
        transport: Transport,
        store: MetadataStore,
        metrics: Metrics,
        host_id: str,
        incarnation: int,
        version: str,
        die: Callable[[BaseException], None],
        peers: Peers | None = None,
        spare_ids: SpareIds | None = None,
    ) -> None:
        """`die` ends the process: it can serve nobody any more. Without `peers` it starts with the store's own image."""
        self._config = config
        self._incarnation = incarnation
        self._clock = clock
        self._peers = peers
        self._follower = ImageFollower(store, peers.newest if peers is not None else None)
        self.meters = Meters(metrics)

        def hello() -> Hello:
            return Hello(GATEWAY, config.node_id, incarnation, version, self.image.feature_level, self.image.cluster_id)

        self._nodes = Nodes(hello, host_id, transport, self._node_ready)
        self._coordinators = Coordinators(hello, host_id, transport)
        self._neighbours = Neighbours(config.node_id, hello, host_id, transport, self._neighbours_gone)
        routes = Routes(self.image)
        self._appends = Appends(self._nodes, routes, self.meters, parked_bytes_max=config.parked_bytes_max)
        self._files = Files(config.open_files_max, config.open_file_idle_s)
        now = asyncio.get_running_loop().time
        outlines = Outlines(self._nodes, now)
        self._moves = Moves(now)
        self.data_path = DataPath(
            config,
            routes,
            self._nodes,
            self._coordinators,
            self._appends,
            self._files,
            outlines,
            self.meters,
            Unready(),
            itertools.count(),
            now,
        )
        self._connections = Connections(config, self, self.data_path, self.meters)
        self._listeners = Listeners(transport, config.listen_host, config.port_base, self._connections.accept)
        self._producer_ids = ProducerIds(self._allocate_producer_ids, spare_ids)
        lending = ImageLending(lambda: self.image)
        self._presence = Presence(config, hello, transport, store, host_id, self._superseded, lending.methods)
        self._joining: asyncio.Task[None] | None = None
        self._die = die
        self._superseded_by: Member | None = None
        self._started = False

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Image, then ports, then registration: nobody is sent here before we answer. Raises OSError for a taken port.

        With an image that was borrowed it serves before it is registered: that needs the store, and clients of our last life
        come to the same ports.
        """
        await self._follower.start()
        self._follow(self.image, self.image)
        self._follower.subscribe(self._follow)
        if self._peers is not None:
            self._peers.note_members_of(self._follower)
        await self._listeners.start(broker_ids(self.image))
        self._listeners.follow(broker_ids(self.image))
        await self._presence.listen()
        self._follower.subscribe(self._presence.follow)
        self._joining = asyncio.get_running_loop().create_task(self._join(), name="registration")
        if self._follower.verified:
            await self._joining
        else:
            self._joining.add_done_callback(self._joined)
        self._producer_ids.prefetch()
        self._started = True

    async def _join(self) -> None:
        await self._presence.register()
        await self._in_own_image()

    def _joined(self, joining: "asyncio.Task[None]") -> None:
        if not joining.cancelled() and (error := joining.exception()) is not None:
            self._die(error)

    async def _in_own_image(self) -> None:
        """Until then this gateway and the others would tell the same client different addresses for the same broker."""
        config = self._config
        while (own := self.image.members(GATEWAY).get(config.node_id)) is None or own.incarnation != self._incarnation:
            changed = asyncio.Event()
            unsubscribe = self._follower.subscribe(lambda _old, _new, changed=changed: changed.set())  # type: ignore[misc]
            try:
                await changed.wait()
            finally:
                unsubscribe()

    def ready(self) -> tuple[bool, str]:
        if self.data_path.leaving:
            return False, "stopping"
        if self._superseded_by is not None:
            return False, f"another process runs as gateway {self._superseded_by.node_id}"
        if not self._started:
            return False, "waiting for the cluster image, the ports or the registration"
        return True, "ready" if self._follower.verified else f"ready, with a peer's metadata of revision {self.image.revision}"

    async def stop(self) -> None:
        """Leaves Metadata, sees clients off to other gateways, accepts no more, answers what was asked, then closes."""
        self.data_path.leaving = True
        others = others_serve(self.image, self._config.node_id) and self._superseded_by is None
        if self._joining is not None:
            self._joining.cancel()
        await self._presence.leave()
        if others and await unnamed(self._follower, self._config.node_id, self._incarnation):
            await see_off(self._connections)
        self._listeners.close()
        self._coordinators.leave()
        await self._connections.drain()
        self._producer_ids.close()
        self._appends.close()
        self.data_path.unready.close()
        await self._nodes.close()
        await self._coordinators.close()
        await self._neighbours.close()
        self._files.close()
        await self._presence.close()
        await self._follower.close()

    def debug(self) -> dict[str, object]:
        """For the admin port."""
        return {
            "revision": self.image.revision,
            "verified": self._follower.verified,
            "connections": len(self._connections),
            "broker_ids": sorted(self._listeners.broker_ids),
            "open_files": len(self._files),
            "parked_bytes": self._appends.parked.bytes,
            **self._coordinators.debug(),
        }

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Clients first, so that what waits for a leader finds its connection."""
        for node_id, member in new.members(STORAGE).items():
            before = old.members(STORAGE).get(node_id)
            if before is not None and before.incarnation != member.incarnation:
                self._files.forget(node_id, member.incarnation)
        self._nodes.follow(new)
        self._neighbours.follow(new)
        routes = Routes(new, self.data_path.routes, self._neighbours.gone)
        self._take_routes(routes)
        moved = next(new.partition_changes_since(old), None) is not None
        self._appends.follow(routes, moved=moved)
        if moved:
            self._follow_reads()
        self._coordinators.follow(new)
        self.data_path.unready.tell()
        if self._started:
            self._listeners.follow(broker_ids(new))

    def _neighbours_gone(self) -> None:
        self._take_routes(Routes(self.image, self.data_path.routes, self._neighbours.gone))

    def _take_routes(self, routes: Routes) -> None:
        if routes.addresses is not self.data_path.routes.addresses:
            self._moves.note(self.data_path.routes.addresses)
        self.data_path.follow(routes)

    def _follow_reads(self) -> None:
        for node in self._nodes.known():
            for _, whose in node.client.under_way():
                if isinstance(whose, PendingFetch):
                    whose.follow()

    def _superseded(self, other: Member) -> None:
        """Metadata sends clients to the other one: we must not stay as if nothing had happened."""
        self._superseded_by = other
        self._die(Superseded(other))

    def _node_ready(self, node_id: int) -> None:
        log.info("storage node connected", extra=fields(node=node_id))
        self._appends.retry()
        self.data_path.unready.tell()

    # --- what handlers may ask ----------------------------------------------------------------------------------------

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
        while (left := deadline - loop.time()) > 0:
            client = self._nodes.controller()
            if client is not None:
                try:
                    response: Response = await client.call(method, body, timeout_s=left)
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

    async def storage(self, node_id: int, method: str, body: object, reply_type: type[T], *, timeout_s: float) -> T:
        node = self._nodes.storage(node_id)
        if node is None:
            raise NodeUnavailable(node_id, "unknown", sent=False)
        try:
            response = await node.client.call(method, body, timeout_s=timeout_s)
            return unpack(reply_type, response.body)
        except RpcError:
            raise
        except Overloaded as error:
            raise NodeUnavailable(node_id, str(error), sent=False) from error
        except RpcFailure as error:
            raise NodeUnavailable(node_id, str(error), sent=error.sent) from error
        except ContractError as error:
            raise NodeUnavailable(node_id, str(error)) from error

    @property
    def shards(self) -> Shards:
        return self._coordinators.shards

    async def ask_shard(self, shard: int, api_key: int, body: bytes, context: RequestContext) -> tuple[int, Payload]:
        answered: asyncio.Future[tuple[int, Payload]] = asyncio.get_running_loop().create_future()

        def told(error: int, payload: Payload) -> None:
            if not answered.done():
                answered.set_result((error, payload))

        host = java_address(context.client_host)
        asking = self._coordinators.ask(Question(shard, api_key, context.api_version, body, context.client_id, host), told)
        if asking is None:
            return LOADING, b""
        try:
            return await answered
        finally:
            asking.cancel()

    async def wait_for_revision(self, revision: int, timeout_s: float) -> bool:
        try:
            await self._follower.wait_for(revision, timeout_s)
        except TimeoutError:
            return False
        return True

    async def ask_neighbours(self) -> None:
        await self._neighbours.ask()

    def broker_endpoint(self, node_id: int, context: RequestContext) -> tuple[str, int] | None:
        listener = self.data_path.routes.addresses.of(node_id, context.client_host, context.listener)
        if listener is None and not self._follower.verified:
            listener = self._presence.listener  # who lent the image had taken us for dead
        return None if listener is None else (listener.host, listener.port_base + node_id)

    def broker_moved(self, node_id: int, group_id: str, context: RequestContext) -> bool:
        addresses = self.data_path.routes.addresses
        return self._moves.to_tell(addresses, node_id, context.client_host, context.peer, context.listener, group_id)

    async def next_producer_id(self) -> int:
        return await self._producer_ids.next()

    async def _allocate_producer_ids(self) -> ProducerIdBlock:
        return await self.controller(ALLOCATE_PRODUCER_IDS, AllocateProducerIds(), ProducerIdBlock, timeout_s=PRODUCER_IDS_S_MAX)
