"""The other gateways of the cluster. They are probed before clients are sent to them.

Clients of a gateway that dies ask another one within a millisecond, before the dead one is removed from the members. A client
that is sent back to it waits for its backoff, each time longer: seconds instead of no wait at all.
"""

import asyncio
import logging
from collections.abc import Callable

from libs.cluster.image import ClusterImage
from libs.cluster.member_addresses import address_of
from libs.cluster.records import GATEWAY, Member
from libs.rpc.client.probe import refuses
from libs.rpc.client.rpc_client import Hello, RpcClient
from libs.rpc.contracts.peers import IMAGE_AT
from libs.rpc.messages.errors import DeadlineExceeded, RpcError, RpcFailure
from libs.rpc.transport.transport import Transport
from libs.telemetry.logs import fields

log = logging.getLogger("network")

PROBE_TIMEOUT_S = 0.1
"""The timeout of a probe. A live gateway answers within a millisecond. No request waits longer for one that is slow or cut
off."""
SILENT_S = 2.0
"""A gateway that did not answer is named, and not probed again for so long. Controllers find out about silent processes."""
GONE_S = 10.0
"""A gateway that has ended and is still a member is probed again after so long. Members cannot change while the store is away."""
RETRY_PAUSES_S = (0.0, 0.005, 0.01, 0.02, 0.04)
"""The pauses before the connection attempts that confirm an end."""


class PeerGateways:
    """The probes of the other gateways. Call `follow` with each image. `on_gone` is called when `gone` changes."""

    def __init__(
        self, node_id: int, hello: Callable[[], Hello], host_id: str, transport: Transport, on_gone: Callable[[], None]
    ) -> None:
        self._node_id, self._hello, self._host_id, self._transport = node_id, hello, host_id, transport
        self._on_gone = on_gone
        self._others: dict[int, _PeerGateway] = {}
        self._probe_task: asyncio.Task[None] | None = None
        self._next_probe_task: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.gone: frozenset[tuple[int, int]] = frozenset()
        """Gateways that have ended and are still members: node id and incarnation."""

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
                self._others[node_id] = _PeerGateway(member, client)
        self._update_gone()

    async def probe(self) -> None:
        """Returns when each gateway has answered a probe that began after this call, or is in `gone`, or has timed out."""
        if not self._others:
            return
        if self._probe_task is None:
            self._probe_task = asyncio.get_running_loop().create_task(self._probe_all())
            await asyncio.shield(self._probe_task)
            return
        if self._next_probe_task is None:
            self._next_probe_task = asyncio.get_running_loop().create_task(self._probe_after(self._probe_task))
        await asyncio.shield(self._next_probe_task)

    async def close(self) -> None:
        for probe_task in (self._probe_task, self._next_probe_task):
            if probe_task is not None:
                probe_task.cancel()
        for node_id in list(self._others):
            self._retire(self._others.pop(node_id))
        if self._closing:
            await asyncio.gather(*self._closing)

    async def _probe_after(self, probe_task: "asyncio.Task[None]") -> None:
        await asyncio.wait([probe_task])
        self._probe_task, self._next_probe_task = self._next_probe_task, None
        await self._probe_all()

    async def _probe_all(self) -> None:
        now = asyncio.get_running_loop().time()
        try:
            await asyncio.gather(*[self._probe(peer) for peer in self._others.values() if peer.probe_at <= now])
            self._update_gone()
        finally:
            self._probe_task = None

    async def _probe(self, peer: "_PeerGateway") -> None:
        loop = asyncio.get_running_loop()
        try:
            await peer.client.call(IMAGE_AT, [], timeout_s=PROBE_TIMEOUT_S)
            peer.gone = False
        except RpcError:
            peer.gone = False
        except DeadlineExceeded:
            peer.probe_at = loop.time() + SILENT_S
        except RpcFailure:
            peer.gone = await self._has_ended(peer.client.address)
            peer.probe_at = loop.time() + (GONE_S if peer.gone else 0.0)

    async def _has_ended(self, address: str) -> bool:
        for pause_s in RETRY_PAUSES_S:
            await asyncio.sleep(pause_s)
            if await refuses(self._transport, address, PROBE_TIMEOUT_S):
                return True
        return False

    def _update_gone(self) -> None:
        gone = frozenset([(peer.member.node_id, peer.member.incarnation) for peer in self._others.values() if peer.gone])
        if gone != self.gone:
            for node_id, incarnation in sorted(gone - self.gone):
                log.warning("gateway has ended", extra=fields(node=node_id, incarnation=incarnation))
            self.gone = gone
            self._on_gone()

    def _retire(self, peer: "_PeerGateway") -> None:
        task = asyncio.get_running_loop().create_task(peer.client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class _PeerGateway:
    __slots__ = ("client", "gone", "member", "probe_at")

    def __init__(self, member: Member, client: RpcClient) -> None:
        self.member = member
        self.client = client
        self.probe_at = 0.0
        """The loop time before which it is not probed again."""
        self.gone = False
