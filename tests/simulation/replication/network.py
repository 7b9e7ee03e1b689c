"""Connections between members, and to the controller: bytes keep their order within one, and come late or not at all."""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any

from libs.roles import STORAGE
from libs.rpc.client.client_connection import Response
from libs.rpc.contracts.controller import ALTER_PARTITIONS
from libs.rpc.messages.errors import Disconnected, RpcError
from libs.rpc.messages.schema import pack
from libs.rpc.server.call import Peer
from tests.simulation.replication.simulator import NO_PROCESS, Simulator

if TYPE_CHECKING:
    from tests.simulation.replication.member import StorageMember

NO_BYTES = memoryview(b"")
OnReply = Callable[[Response | Exception], None]

NOBODY = Peer("gateway", 1, 1, "", 1, "", None, "a gateway", 1)


class Network:
    """The delays from node to node; 0 is the controller. `blocked`: the time until which nothing arrives."""

    def __init__(self, simulator: Simulator) -> None:
        self._random = simulator.stream("lines")
        self._loop = simulator.loop
        self.blocked: dict[tuple[int, int], float] = {}
        self.slowness = 1.0

    def arrived(self, sender: int, receiver: int, message: object, payload: bytes | memoryview = b"") -> None:
        """Called with each message at its arrival: (method, body), the body of an answer, its error, or an image. Stories show
        it."""

    def arrival(self, sender: int, receiver: int, after: float) -> float:
        random = self._random.random
        delay = 0.0005 + 0.003 * random() * self.slowness
        if random() < 0.03:
            delay += 0.06 * random()
        return max(self._loop.time() + delay, after + 1e-6, self.blocked.get((sender, receiver), 0.0))


class Call:
    """The receiver's end: the part of `libs.rpc.server.call.Call` that services use."""

    __slots__ = ("_answer", "_on_cancel", "body", "cancelled", "payload", "peer", "request_id", "trace")

    def __init__(
        self,
        body: object,
        payload: memoryview,
        answer: Callable[[object, bytes, Exception | None], None],
        peer: Peer = NOBODY,
    ) -> None:
        self.body = body
        self.payload = payload
        self.peer, self.request_id, self.trace = peer, 0, None
        self.cancelled = False
        self._answer: Callable[[object, bytes, Exception | None], None] | None = answer
        self._on_cancel: list[Callable[[], None]] = []

    @property
    def open(self) -> bool:
        return self._answer is not None

    def on_cancel(self, callback: Callable[[], None]) -> None:
        self._on_cancel.append(callback)

    def reply(self, body: object, payload: Sequence[bytes] = (), files: Sequence[object] = ()) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer(body, b"".join(payload), None)

    def fail(self, code: int, message: str) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer(None, b"", RpcError(code, message))

    def cancel(self) -> None:
        if self._answer is not None:
            self._answer, self.cancelled = None, True
            for callback in self._on_cancel:
                callback()


class Connection:
    """One life's connection to another member, in place of an `RpcClient`. It connects again by itself."""

    address, peer = "another-host:1", None

    def __init__(self, simulator: Simulator, network: Network, sender: "StorageMember", receiver: "StorageMember") -> None:
        self._simulator, self._network = simulator, network
        self.sender, self.receiver = sender, receiver
        self._context = sender.context
        self._peer = Peer(STORAGE, sender.node_id, sender.incarnation, "", 1, "", None, f"node {sender.node_id}", 1)
        self._generation = self._last_id = 0
        self._sent_at = self._answered_at = 0.0
        self._waiting: dict[int, OnReply] = {}
        self._calls: dict[int, Call] = {}

    def send(self, method: str, body: object, payload: Sequence[bytes], on_reply: OnReply, *, timeout_s: float) -> int:
        self._last_id = request_id = self._last_id + 1
        self._waiting[request_id] = on_reply
        if self.receiver.life is None:
            self._soon(self._context, self._fail, request_id)
        else:
            self._send(method, pack(body), request_id)
        return request_id

    def oneway(self, method: str, body: object) -> bool:
        if self.receiver.life is None:
            return False
        self._send(method, pack(body), 0)
        return True

    def cancel(self, request_id: int) -> None:
        if self._waiting.pop(request_id, None) is not None and (call := self._calls.pop(request_id, None)) is not None:
            self._soon(self.receiver.context, call.cancel)

    async def close(self) -> None:
        self.reset()
        self._waiting.clear()
        self.sender.connections.pop(self, None)

    def reset(self) -> None:
        """Breaks the connection. Requests and responses in flight are lost."""
        self._generation += 1
        for request_id in self._waiting:
            self._soon(self._context, self._fail, request_id)
        calls, self._calls = self._calls, {}
        for call in calls.values():
            self._soon(self.receiver.context, call.cancel)

    def _soon(self, context: Context, callback: Callable[..., object], *args: object) -> None:
        self._simulator.loop.call_at(self._network.arrival(0, 0, 0.0), callback, *args, context=context)

    def _send(self, method: str, body: object, request_id: int) -> None:
        self._sent_at = self._network.arrival(self.sender.node_id, self.receiver.node_id, self._sent_at)
        arrived = self._generation, method, body, request_id
        self._simulator.loop.call_at(self._sent_at, self._arrive, *arrived, context=self.receiver.context)

    def _arrive(self, generation: int, method: str, body: object, request_id: int) -> None:
        if generation != self._generation:
            return
        call = Call(body, NO_BYTES, lambda *answer: self._answer(generation, request_id, *answer), self._peer)
        if request_id in self._waiting:
            self._calls[request_id] = call
        self._network.arrived(self.sender.node_id, self.receiver.node_id, (method, body))
        self.receiver.serve(method, call)

    def _answer(self, generation: int, request_id: int, body: Any, payload: bytes, error: Exception | None) -> None:
        self._calls.pop(request_id, None)
        self._answered_at = self._network.arrival(self.receiver.node_id, self.sender.node_id, self._answered_at)
        outcome = error or Response(body, memoryview(payload), ())
        self._simulator.loop.call_at(self._answered_at, self._answered, generation, request_id, outcome, context=self._context)

    def _answered(self, generation: int, request_id: int, outcome: Response | Exception) -> None:
        if generation == self._generation and (on_reply := self._waiting.pop(request_id, None)) is not None:
            answer = outcome if isinstance(outcome, Exception) else outcome.body
            payload = b"" if isinstance(outcome, Exception) else outcome.payload
            self._network.arrived(self.receiver.node_id, self.sender.node_id, answer, payload)
            on_reply(outcome)

    def _fail(self, request_id: int) -> None:
        if (on_reply := self._waiting.pop(request_id, None)) is not None:
            on_reply(Disconnected("the connection was lost", sent=True))


class ControllerClient:
    """One life's way to the controller, in place of `Controllers`. An answer may be lost after what was asked is done."""

    def __init__(
        self,
        simulator: Simulator,
        network: Network,
        sender: "StorageMember",
        ask: Callable[[object], object],
        loses: Callable[[], bool],
    ) -> None:
        self._simulator, self._network, self._sender = simulator, network, sender
        self._ask, self._loses = ask, loses
        self._context = sender.context
        self._sent_at = 0.0

    async def call(self, method: str, request: object) -> Response:
        """Raises RpcFailure."""
        future: asyncio.Future[Response] = self._simulator.loop.create_future()
        self._sent_at = self._network.arrival(self._sender.node_id, 0, self._sent_at)
        self._simulator.loop.call_at(self._sent_at, self._arrive, request, future, context=NO_PROCESS)
        return await future

    def _arrive(self, request: object, future: "asyncio.Future[Response]") -> None:
        body: Any = None
        error: Exception | None = None
        self._network.arrived(self._sender.node_id, 0, (ALTER_PARTITIONS, request))
        if self._loses():
            error = Disconnected("nobody knows whether it was done", sent=True)
        else:
            try:
                body = pack(self._ask(request))
            except RpcError as refused:
                error = refused
            if self._loses():
                error = Disconnected("it was done, and nobody was told", sent=True)
        at = self._network.arrival(0, self._sender.node_id, 0.0)
        self._simulator.loop.call_at(at, self._answered, future, body, error, context=self._context)

    def _answered(self, future: "asyncio.Future[Response]", body: Any, error: Exception | None) -> None:
        if future.done():
            return
        self._network.arrived(0, self._sender.node_id, error or body)
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(Response(body, NO_BYTES, ()))
