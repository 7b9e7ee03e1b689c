"""A fake coordinator that speaks the real RPC, gives the answers that a test sets, and keeps its requests."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from libs.rpc.contracts.coordinators import Ask, AskReply
from libs.rpc.messages.schema import unpack
from libs.rpc.server.rpc_server import Call, Hello, RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from services.gateway.core.coordinator_shards import GROUPS, CoordinatorKind


@dataclass
class Heard:
    ask: Ask
    body: bytes


class FakeCoordinator:
    """It answers with `error` if that is set, otherwise with `answers` of the API, otherwise with the request itself.

    `holding`: calls are kept in `held`, and answered by `release`. `cancelled` has the bodies of cancelled requests.
    """

    def __init__(self, node_id: int, directory: Path, kind: CoordinatorKind = GROUPS) -> None:
        self.node_id = node_id
        self.kind = kind
        self.incarnation = 1
        self.address = f"unix:{directory}/{kind.role[0]}{node_id}"
        self.error = 0
        self.answers: dict[int, bytes] = {}  # by API key
        self.by_shard: dict[int, bytes] = {}
        self.holding = False
        self.held: list[Call] = []
        self.heard: list[Heard] = []
        self.cancelled: list[bytes] = []
        self._server: RpcServer | None = None

    async def start(self) -> None:
        hello = Hello(self.kind.role, self.node_id, self.incarnation, "test", 1)
        self._server = RpcServer(hello, {self.kind.method: self._ask}, transport=SocketTransport())
        await self._server.listen(self.address)

    async def stop(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            await server.close(drain_s=0)
        self.held.clear()

    async def restart(self) -> None:
        """Restarts it as the next incarnation."""
        await self.stop()
        self.incarnation += 1
        self.holding = False
        await self.start()

    def begin_to_stop(self) -> None:
        """Refuses new requests. Accepted ones may still be answered."""
        assert self._server is not None
        self._server.closing = True

    def release(self, index: int = 0) -> None:
        self._answer(self.held.pop(index))

    def _ask(self, call: Call) -> None:
        heard = Heard(unpack(Ask, call.body), bytes(call.payload))
        self.heard.append(heard)
        call.on_cancel(lambda: self.cancelled.append(heard.body))
        if self.holding:
            self.held.append(call)
        else:
            self._answer(call)

    def _answer(self, call: Call) -> None:
        ask = unpack(Ask, call.body)
        if self.error:
            call.reply(AskReply(self.error))
        else:
            echo = bytes(call.payload)
            call.reply(AskReply(0), (self.by_shard.get(ask.shard) or self.answers.get(ask.api_key) or echo,))


async def heard(coordinator: FakeCoordinator, count: int) -> None:
    """Returns once the coordinator has got so many requests."""
    async with asyncio.timeout(60):
        while len(coordinator.heard) < count:  # noqa: ASYNC110 - a fake announces nothing
            await asyncio.sleep(0.002)
