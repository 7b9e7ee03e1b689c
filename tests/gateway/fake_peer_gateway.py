"""A fake peer gateway: a member that answers RPC, or does not."""

from libs.cluster import keys
from libs.cluster.records import GATEWAY, Listener, Member
from libs.cluster.store import Delete
from libs.rpc.contracts.peers import IMAGE_AT, ImageAt
from libs.rpc.server.rpc_server import Call, Hello, RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from tests.gateway.conftest import HOST_ID, Rig
from tests.support.ports import LAST

PORT_BASE = LAST
"""A port of no rig. With the rig's own ports, another gateway would change no address."""


class FakePeerGateway:
    def __init__(self, rig: Rig, node_id: int = 2) -> None:
        self.silent = False
        self.probes = 0
        self._rig, self._node_id = rig, node_id
        self._address = ""
        self._server = RpcServer(Hello(GATEWAY, node_id, 1, "test", 1), {IMAGE_AT: self._answer}, transport=SocketTransport())

    async def start(self) -> None:
        self._address = await self._server.listen("tcp:127.0.0.1:0")

    async def join(self) -> None:
        listeners = (Listener("PLAINTEXT", "127.0.0.1", PORT_BASE),)
        member = Member(GATEWAY, self._node_id, 1, HOST_ID, tcp_address=self._address, listeners=listeners)
        await self._rig.put(keys.member(GATEWAY, self._node_id), member)

    async def leave(self) -> None:
        await self._rig.store.txn([], [Delete(keys.member(GATEWAY, self._node_id))])

    async def end(self) -> None:
        """Closes it as if it were killed. It stays a member until it is removed."""
        await self._server.close(drain_s=0.0)

    def _answer(self, call: Call) -> None:
        self.probes += 1
        if not self.silent:
            call.reply(ImageAt(1, ""))
