"""The elected controller as a node meets it that tells where its replicas lie: decided by the real one's rules."""

import asyncio
from pathlib import Path

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import CONTROLLER, ElectedController, Member
from libs.cluster.store import ModRevisionIs, Put
from libs.rpc.contracts.controller import ASSIGN_DIRS, WITHDRAW, AssignDirs, AssignDirsReply, Withdraw, WithdrawReply
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.rpc.server.rpc_server import Hello, RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from services.controller.core.directories.replica_directories import assign_dirs
from services.controller.core.model.refusal import Refused
from tests.storage.cluster import StorageCluster


class NamingController:
    """Hears, and answers when it is not `away`."""

    def __init__(self, cluster: StorageCluster) -> None:
        self.cluster = cluster
        self.requests: list[AssignDirs] = []
        self.withdrawn: list[tuple[bytes, int]] = []
        self._back = asyncio.Event()
        self._back.set()
        self._server = RpcServer(
            Hello(CONTROLLER, 7, 1, "test", 1, "test-cluster"),
            {ASSIGN_DIRS: self._assign, WITHDRAW: self._withdraw},
            transport=SocketTransport(),
        )

    async def elect(self, path: Path) -> "NamingController":
        address = await self._server.listen(f"unix:{path}/c")
        member = Member(CONTROLLER, 7, 1, "this-host", unix_address=address)
        await self.cluster.write(keys.member(CONTROLLER, 7), encode(member))
        await self.cluster.write(keys.CONTROLLER, encode(ElectedController(7, 1)))
        return self

    def go_away(self) -> None:
        self._back.clear()

    def come_back(self) -> None:
        self._back.set()

    async def close(self) -> None:
        self.come_back()
        await self._server.close(drain_s=0.1)

    async def _assign(self, call: Call) -> None:
        request = unpack(AssignDirs, call.body)
        self.requests.append(request)
        await self._back.wait()
        listed = await self.cluster.store.range(keys.PREFIX)
        revisions = {item.key: item.mod_revision for item in listed.items}
        try:
            changed = assign_dirs(ClusterImage.from_range(listed), request)
        except Refused as refused:
            call.fail(int(refused.error), refused.message)
            return
        for topic_id, index, state in changed:
            key = keys.partition(topic_id, index)
            await self.cluster.store.txn([ModRevisionIs(key, revisions[key])], [Put(key, encode(state))])
        call.reply(AssignDirsReply(listed.revision))

    def _withdraw(self, call: Call) -> None:
        request = unpack(Withdraw, call.body)
        self.withdrawn += (*request.partitions, *request.for_now)
        call.reply(WithdrawReply(0))
