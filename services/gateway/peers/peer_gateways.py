"""The other gateways, asked whether they live before clients are sent to them.

Clients of a gateway that dies ask another one within a millisecond, before anybody has removed the dead one from the members. A
client that is sent back there waits for its backoff, and each time for longer: seconds, where it would have been none.
"""

import asyncio
import logging
from collections.abc import Callable

from libs.cluster.image import ClusterImage
from libs.cluster.reaching import address_of
from libs.cluster.records import GATEWAY, Member
from libs.rpc.client import Hello, RpcClient
from libs.rpc.contracts.peers import IMAGE_AT
from libs.rpc.errors import DeadlineExceeded, RpcError, RpcFailure
from libs.rpc.knock import refuses
from libs.rpc.transport import Transport
from libs.telemetry.logs import fields

log = logging.getLogger(__name__)

ANSWER_S = 0.1
"""Who lives answers within a millisecond. Nobody waits longer for one who may only be slow, or cut off."""
PASSED_OVER_S = 2.0
"""For so long one who did not answer is not asked again, and is named: controllers find out about the silent."""
GONE_S = 10.0
"""After so long one whom the members name all the same is asked again: they cannot change while the store is away."""
KNOCK_AGAIN_S = (0.0, 0.005, 0.01, 0.02, 0.04)


class Neighbours:
    """`follow` each image. `on_gone` is called when `gone` is another."""

    def __init__(
        self, node_id: int, hello: Callable[[], Hello], host_id: str, transport: Transport, on_gone: Callable[[], None]
    ) -> None:
        self._node_id, self._hello, self._host_id, self._transport = node_id, hello, host_id, transport
        self._on_gone = on_gone
        self._others: dict[int, _Neighbour] = {}
        self._asking: asyncio.Task[None] | None = None
        self._asked_next: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.gone: frozenset[tuple[int, int]] = frozenset()
        """Gateways that have ended, though the members name them: node id and incarnation."""

    def follow(self, image: ClusterImage) -> None:
        members = image.members(GATEWAY)
        for node_id, known in list(self._others.items()):
            member = members.get(node_id)
            if member is None or member.incarnation != known.member.incarnation:
                self._retire(self._others.pop(node_id))
        for node_id, member in members.items():
            address = address_of(member, self._host_id)
            if node_id != self._node_id and node_id not in self._others and address:
                client = RpcClient(address, self._hello, self._transport, expected=(GATEWAY, node_id))
                self._others[node_id] = _Neighbour(member, client)
        self._take_stock()

    async def ask(self) -> None:
        """Returns when each has answered, or is in `gone`, or has taken too long: each after this was called."""
        if not self._others:
            return
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask_all())
            await asyncio.shield(self._asking)
            return
        if self._asked_next is None:
            self._asked_next = asyncio.get_running_loop().create_task(self._ask_after(self._asking))
        await asyncio.shield(self._asked_next)

    async def close(self) -> None:
        for asking in (self._asking, self._asked_next):
            if asking is not None:
                asking.cancel()
        for node_id in list(self._others):
            self._retire(self._others.pop(node_id))
        if self._closing:
            await asyncio.gather(*self._closing)

    async def _ask_after(self, asking: "asyncio.Task[None]") -> None:
        await asyncio.wait([asking])
        self._asking, self._asked_next = self._asked_next, None
        await self._ask_all()

    async def _ask_all(self) -> None:
        now = asyncio.get_running_loop().time()
        try:
            await asyncio.gather(*[self._ask(one) for one in self._others.values() if one.ask_at <= now])
            self._take_stock()
        finally:
            self._asking = None

    async def _ask(self, one: "_Neighbour") -> None:
        loop = asyncio.get_running_loop()
        try:
            await one.client.call(IMAGE_AT, [], timeout_s=ANSWER_S)
            one.gone = False
        except RpcError:
            one.gone = False
        except DeadlineExceeded:
            one.ask_at = loop.time() + PASSED_OVER_S
        except RpcFailure:
            one.gone = await self._has_ended(one.client.address)
            one.ask_at = loop.time() + (GONE_S if one.gone else 0.0)

    async def _has_ended(self, address: str) -> bool:
        for pause_s in KNOCK_AGAIN_S:
            await asyncio.sleep(pause_s)
            if await refuses(self._transport, address, ANSWER_S):
                return True
        return False

    def _take_stock(self) -> None:
        gone = frozenset([(one.member.node_id, one.member.incarnation) for one in self._others.values() if one.gone])
        if gone != self.gone:
            for node_id, incarnation in sorted(gone - self.gone):
                log.warning("gateway has ended", extra=fields(node=node_id, incarnation=incarnation))
            self.gone = gone
            self._on_gone()

    def _retire(self, one: "_Neighbour") -> None:
        task = asyncio.get_running_loop().create_task(one.client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class _Neighbour:
    __slots__ = ("ask_at", "client", "gone", "member")

    def __init__(self, member: Member, client: RpcClient) -> None:
        self.member = member
        self.client = client
        self.ask_at = 0.0
        """In loop time. Not before."""
        self.gone = False
