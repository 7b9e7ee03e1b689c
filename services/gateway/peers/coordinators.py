"""The gateway's way to the group coordinators: one RPC client to each, which shard each owns, and what waits for an owner.

A coordinator that vanished from the members keeps its client: a lost lease is not a death (DESIGN section 5), and the shards'
states say who owns them. A new incarnation knows nothing of the past, so what the former one was asked fails as disconnected.
"""

import asyncio
import logging
from collections.abc import Callable

from libs.cluster.image import ClusterImage
from libs.cluster.owners import Owner
from libs.cluster.reaching import address_of
from libs.cluster.records import GROUP_COORDINATOR, Member
from libs.rpc.client import Hello, RpcClient
from libs.rpc.errors import RpcFailure
from libs.rpc.transport import Transport
from libs.telemetry.logs import fields
from services.gateway.asking import Asking, Question, Told
from services.gateway.core.shards import Shards
from services.gateway.unready import Unready

log = logging.getLogger(__name__)

CONNECT_S_MAX = 5.0

HELD_BYTES_MAX = 48 << 20
"""Of requests without an answer, of all clients together. An RPC connection takes 64 MiB: beyond, nobody would be heard."""
PARKED_BYTES_MAX = 32 << 20
"""Of those, joins and syncs, which wait for other members: what is left belongs to those whom nobody has to wait for."""


class Coordinator:
    """One registered incarnation of a group coordinator."""

    __slots__ = ("client", "incarnation", "node_id")

    def __init__(self, node_id: int, incarnation: int, client: RpcClient) -> None:
        self.node_id = node_id
        self.incarnation = incarnation
        self.client = client


class Coordinators:
    """Call `follow` with each new image. `ask` may be called at any time."""

    def __init__(self, hello: Callable[[], Hello], host_id: str, transport: Transport) -> None:
        self._hello = hello
        self._host_id = host_id
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._known: dict[int, Coordinator] = {}
        self._owners: dict[int, Coordinator] = {}
        """Of this image's shards, as far as somebody asked."""
        self._unreachable: set[tuple[int, int]] = set()
        self._connecting: dict[Coordinator, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._held = self._parked = 0
        self._closed = False
        self.waiting = Unready()
        """Askings that nobody can be asked for now."""
        self.leaving = False
        """This gateway ends: nobody waits here for other members any more."""
        self.shards = Shards(ClusterImage())

    # --- who there is -------------------------------------------------------------------------------------------------

    def follow(self, image: ClusterImage) -> None:
        if self._closed:
            return
        for node_id, member in image.members(GROUP_COORDINATOR).items():
            known = self._known.get(node_id)
            if known is None or known.incarnation != member.incarnation:
                self._owners.clear()
                self._meet(member)
        before, self.shards = self.shards, Shards(image, self.shards)
        self._owners.clear()
        if not self.shards.same_owners(before):
            for asking in self._under_way():
                asking.follow()
        self.waiting.tell()

    def owner(self, shard: int) -> Coordinator | None:
        """Whom the newest image names, if it is known here."""
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

    def connect(self, coordinator: Coordinator) -> None:
        if coordinator not in self._connecting and not self._closed:
            task = self._loop.create_task(self._connect(coordinator))
            self._connecting[coordinator] = task
            task.add_done_callback(lambda _task: self._connecting.pop(coordinator, None))

    # --- asking -------------------------------------------------------------------------------------------------------

    def ask(self, question: Question, told: Told) -> Asking | None:
        """`told` is called once, perhaps before this returns; None: there is no room for it, and `told` is not called."""
        size, parks = question.size, question.parks
        if self._held + size > HELD_BYTES_MAX or (parks and self._parked + size > PARKED_BYTES_MAX):
            return None
        self._held += size
        self._parked += size if parks else 0
        asking = Asking(self, question, told)
        asking.start()
        return asking

    def over(self, question: Question) -> None:
        """For askings: it takes no room any more."""
        self._held -= question.size
        self._parked -= question.size if question.parks else 0

    def leave(self) -> None:
        """Those who wait for other members hear that this is not the place, so that they go to another gateway."""
        self.leaving = True
        for asking in self._under_way():
            asking.leave()
        self.waiting.tell()

    async def close(self) -> None:
        self._closed = True
        self.waiting.close()
        for connecting in list(self._connecting.values()):
            connecting.cancel()
        for known in self._known.values():
            self._retire(known.client)
        self._known.clear()
        self._owners.clear()
        if self._closing:
            await asyncio.gather(*self._closing)

    def debug(self) -> dict[str, object]:
        """For the admin port."""
        return {
            "group_coordinators": {known.node_id: known.client.connected for known in self._known.values()},
            "group_requests_bytes": self._held,
            "group_requests_waiting": len(self.waiting),
        }

    def _under_way(self) -> list[Asking]:
        return [whose for known in self._known.values() for _, whose in known.client.under_way() if isinstance(whose, Asking)]

    def _meet(self, member: Member) -> None:
        known = self._known.pop(member.node_id, None)
        if known is not None:
            self._retire(known.client)
        address = address_of(member, self._host_id)
        life = (member.node_id, member.incarnation)
        if not address:
            if life not in self._unreachable:
                self._unreachable.add(life)
                log.error("no address of a group coordinator leads to it from here", extra=fields(node=member.node_id))
            return
        client = RpcClient(address, self._hello, self._transport, expected=(GROUP_COORDINATOR, member.node_id))
        coordinator = self._known[member.node_id] = Coordinator(member.node_id, member.incarnation, client)
        log.info("group coordinator appeared", extra=fields(node=member.node_id, incarnation=member.incarnation, address=address))
        self.connect(coordinator)

    async def _connect(self, coordinator: Coordinator) -> None:
        while self._known.get(coordinator.node_id) is coordinator:
            try:
                await coordinator.client.ready(CONNECT_S_MAX)
            except RpcFailure as error:
                # The client backs off by itself; when it was closed, the coordinator was replaced and this ends.
                if self._known.get(coordinator.node_id) is coordinator:
                    log.info("group coordinator unreachable", extra=fields(node=coordinator.node_id, error=str(error)))
                continue
            self.waiting.tell()
            return

    def _retire(self, client: RpcClient) -> None:
        task = self._loop.create_task(client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
