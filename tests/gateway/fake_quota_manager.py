"""A fake quota manager: a member that is elected, and grants what a test says."""

from collections.abc import Callable

from libs.cluster import keys
from libs.cluster.records import QUOTA_MANAGER, ElectedQuotaManager, Member
from libs.cluster.store import Delete
from libs.rpc.contracts.quotas import ASK, Ask, Grant, Granted
from libs.rpc.messages.schema import unpack
from libs.rpc.server.rpc_server import Call, Hello, RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from tests.gateway.conftest import HOST_ID, Rig


def all_of_it(ask: Ask) -> Granted:
    return Granted(0, tuple(Grant(need.wanted + need.debt) for need in ask.needs))


class FakeQuotaManager:
    """`answer` None: it does not answer."""

    def __init__(self, rig: Rig, node_id: int = 1) -> None:
        self.asks: list[Ask] = []
        self.answer: Callable[[Ask], Granted] | None = all_of_it
        self._rig, self._node_id = rig, node_id
        self._server = RpcServer(Hello(QUOTA_MANAGER, node_id, 1, "test", 1), {ASK: self._asked}, transport=SocketTransport())

    async def start(self) -> None:
        address = await self._server.listen("tcp:127.0.0.1:0")
        await self._rig.put(
            keys.member(QUOTA_MANAGER, self._node_id), Member(QUOTA_MANAGER, self._node_id, 1, HOST_ID, tcp_address=address)
        )
        await self._rig.put(keys.QUOTA_MANAGER, ElectedQuotaManager(self._node_id, 1))

    async def stop(self) -> None:
        await self._server.close(drain_s=0.0)

    async def resign(self) -> None:
        await self._rig.store.txn([], [Delete(keys.QUOTA_MANAGER)])

    def _asked(self, call: Call) -> None:
        ask = unpack(Ask, call.body)
        self.asks.append(ask)
        if self.answer is not None:
            call.reply(self.answer(ask))
