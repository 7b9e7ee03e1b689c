"""The coordinators of a kind: an RPC client to each, the owner of each shard, and the requests that wait for an owner.

A coordinator that is no longer a member keeps its client: a lost lease is not a death, and the shards' states say which
coordinator owns them. A new incarnation knows nothing of the past, so requests to the former one fail as disconnected.
"""

import asyncio
import logging
from collections.abc import Callable

from libs.cluster.image import ClusterImage
from libs.cluster.member_addresses import address_of
from libs.cluster.records import Member
from libs.cluster.shard_owners import Owner
from libs.rpc.client.rpc_client import Hello, RpcClient
from libs.rpc.messages.errors import RpcFailure
from libs.rpc.transport.transport import Transport
from libs.telemetry.logs import fields
from services.gateway.core.coordinator_shards import CoordinatorKind, CoordinatorShards
from services.gateway.peers.coordinator_request import Coordinator, CoordinatorQuery, CoordinatorRequest, OnResult
from services.gateway.peers.delayed_requests import DelayedRequests

log = logging.getLogger("network")

CONNECT_S_MAX = 5.0

HELD_BYTES_MAX = 48 << 20
"""The bytes of unanswered requests, of all clients together. An RPC connection takes 64 MiB; beyond, no request would get
through."""
PARKED_BYTES_MAX = 32 << 20
"""The part of these bytes that joins and syncs may use, which wait for other members. The rest stays free for requests that do
not."""


class Coordinators:
    """The coordinators of a kind in the newest image. Call `follow` with each image; `ask` may be called at any time."""

    def __init__(self, kind: CoordinatorKind, hello: Callable[[], Hello], host_id: str, transport: Transport) -> None:
        self.kind = kind
        self._hello = hello
        self._host_id = host_id
        self._transport = transport
        self.loop = asyncio.get_running_loop()
        self._known: dict[int, Coordinator] = {}
        self._owners: dict[int, Coordinator] = {}
        """The owners of this image's shards, as far as they were needed."""
        self._unreachable: set[tuple[int, int]] = set()
        self._connecting: dict[Coordinator, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._held = self._parked = 0
        self._closed = False
        self.delayed_requests = DelayedRequests()
        """The requests that have no reachable owner now."""
        self.leaving = False
        """True while this gateway stops: no request may wait here for other members any more."""
        self.topics_revision = 0
        """The revision at which the topics of the newest image last changed."""
        self.shards = CoordinatorShards(kind, ClusterImage())

    # --- members and owners -------------------------------------------------------------------------------------------

    def follow(self, image: ClusterImage) -> None:
        if self._closed:
            return
        for node_id, member in image.members(self.kind.role).items():
            known = self._known.get(node_id)
            if known is None or known.incarnation != member.incarnation:
                self._owners.clear()
                self._add(member)
        self.topics_revision = image.topics_revision
        before, self.shards = self.shards, CoordinatorShards(self.kind, image, self.shards)
        self._owners.clear()
        if not self.shards.same_owners(before):
            for request in self._requests_in_flight():
                request.follow()
        self.delayed_requests.retry_all()

    def owner(self, shard: int) -> Coordinator | None:
        """The owner that the newest image names, if this gateway knows its address."""
        owner = self._owners.get(shard)
        if owner is None:
            owner = self._owner(shard)
            if owner is not None:
                self._owners[shard] = owner
        return owner

    def _owner(self, shard: int) -> Coordinator | None:
        named = self.shards.owner(shard)
        known = self._known.get(named.node_id) if named is not None else None
        return known if known is not None and named == Owner(known.node_id, known.incarnation) else None

    def client(self, node_id: int) -> RpcClient | None:
        """The client of a coordinator, whatever it owns."""
        known = self._known.get(node_id)
        return known.client if known is not None else None

    def connect(self, coordinator: Coordinator) -> None:
        if coordinator not in self._connecting and not self._closed:
            task = self.loop.create_task(self._connect(coordinator))
            self._connecting[coordinator] = task
            task.add_done_callback(lambda _task: self._connecting.pop(coordinator, None))

    # --- requests -----------------------------------------------------------------------------------------------------

    def ask(self, query: CoordinatorQuery, on_result: OnResult) -> CoordinatorRequest | None:
        """Sends the request. `on_result` is called once, perhaps before this returns.

        None: the bytes held are at their bound, and `on_result` is never called.
        """
        size, parks = query.size, query.api.parks
        if self._held + size > HELD_BYTES_MAX or (parks and self._parked + size > PARKED_BYTES_MAX):
            return None
        self._held += size
        self._parked += size if parks else 0
        request = CoordinatorRequest(self, query, on_result)
        request.ask()
        return request

    def release(self, query: CoordinatorQuery) -> None:
        """Gives the bytes of a request that has ended back to the budgets."""
        self._held -= query.size
        self._parked -= query.size if query.api.parks else 0

    def leave(self) -> None:
        """Ends joins and syncs that wait for other members. Their clients look for the coordinator again, at another gateway."""
        self.leaving = True
        for request in self._requests_in_flight():
            request.leave()
        self.delayed_requests.retry_all()

    async def close(self) -> None:
        self._closed = True
        self.delayed_requests.close()
        for connecting in list(self._connecting.values()):
            connecting.cancel()
        for known in self._known.values():
            self._retire(known.client)
        self._known.clear()
        self._owners.clear()
        if self._closing:
            await asyncio.gather(*self._closing)

    def debug(self) -> dict[str, object]:
        """The coordinators' part of `/debug` on the admin port."""
        return {
            "coordinators": {known.node_id: known.client.connected for known in self._known.values()},
            "requests_bytes": self._held,
            "requests_waiting": len(self.delayed_requests),
        }

    def _requests_in_flight(self) -> list[CoordinatorRequest]:
        return [
            callback
            for known in self._known.values()
            for _, callback in known.client.in_flight()
            if isinstance(callback, CoordinatorRequest)
        ]

    def _add(self, member: Member) -> None:
        known = self._known.pop(member.node_id, None)
        if known is not None:
            self._retire(known.client)
        address = address_of(member, self._host_id)
        key = (member.node_id, member.incarnation)
        if not address:
            if key not in self._unreachable:
                self._unreachable.add(key)
                log.error(f"a {self.kind.name} has no address that can be reached from here", extra=fields(node=member.node_id))
            return
        client = RpcClient(address, self._hello, self._transport, expected=(self.kind.role, member.node_id))
        coordinator = self._known[member.node_id] = Coordinator(member.node_id, member.incarnation, client)
        details = fields(node=member.node_id, incarnation=member.incarnation, address=address)
        log.info(f"{self.kind.name} appeared", extra=details)
        self.connect(coordinator)

    async def _connect(self, coordinator: Coordinator) -> None:
        while self._known.get(coordinator.node_id) is coordinator:
            try:
                await coordinator.client.ready(CONNECT_S_MAX)
            except RpcFailure as error:
                # The RPC client backs off by itself. If it was closed, the coordinator was replaced, and the loop ends.
                if self._known.get(coordinator.node_id) is coordinator:
                    log.info(f"{self.kind.name} unreachable", extra=fields(node=coordinator.node_id, error=str(error)))
                continue
            self.delayed_requests.retry_all()
            return

    def _retire(self, client: RpcClient) -> None:
        task = self.loop.create_task(client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
