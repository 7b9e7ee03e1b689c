"""Connections between processes: bytes keep their order within one, and come late or not at all.

What was sent over a lost connection may still arrive, also after what is sent over the next one: a paused process reads it from
its sockets when it goes on.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any

import msgpack

from libs.cluster.image import ClusterImage
from libs.cluster.records import Member
from libs.cluster.shard_owners import Owner
from libs.rpc.client.client_connection import Response
from libs.rpc.messages.envelope import pack_any
from libs.rpc.messages.errors import DeadlineExceeded, Disconnected
from libs.rpc.server.call import Peer
from libs.wire.errors import ErrorCode
from tests.simulation.cluster.loop import Life
from tests.simulation.replication import network as replication
from tests.simulation.replication.simulator import Simulator, life_of

OnReply = Callable[[Response | Exception], None]
Wanted = Callable[[], bool]
LOST = ("request lost", "request late", "answer lost")
"""The caller hears soon that the connection is lost."""
FATES = (*LOST, "answer late")


class Process:
    """One life of a process. A restart makes another object."""

    def __init__(self, simulator: Simulator, name: str) -> None:
        self.simulator = simulator
        self.name = name
        self.life: Life
        self.context: Context
        self.life, self.context = life_of(name)
        self.image = ClusterImage()
        self.deaf_until = 0.0
        """It sees no image before."""

    @property
    def peer(self) -> Peer:
        """Its hello, as receivers of its calls see it."""
        return replication.NOBODY

    @property
    def alive(self) -> bool:
        return not self.life.dead

    def serve(self, method: str, call: "Call") -> None:
        raise NotImplementedError

    def see(self, image: ClusterImage) -> None:
        """Takes a newer image."""
        raise NotImplementedError

    @property
    def connections(self) -> list["Connection"]:
        """Those that it has made."""
        raise NotImplementedError

    def kill(self) -> None:
        if self.alive:
            self.simulator.log_event("%s is killed", self.name)
            self.simulator.loop.end(self.life)

    def soon(self, seconds: float, callback: Callable[..., object], *args: object) -> None:
        self.simulator.loop.call_later(seconds, callback, *args, context=self.context)


class Server(Process):
    """A process that is registered, and that others connect to."""

    def __init__(self, simulator: Simulator, role: str, node_id: int, incarnation: int) -> None:
        super().__init__(simulator, f"{role} {node_id}@{incarnation}")
        self.role, self.node_id, self.incarnation = role, node_id, incarnation

    @property
    def peer(self) -> Peer:
        return Peer(self.role, self.node_id, self.incarnation, "", 1, "", None, self.name, 1)

    @property
    def owner(self) -> Owner:
        """The name by which it owns shards."""
        return Owner(self.node_id, self.incarnation)


class Network:
    """What the lines do at the moment."""

    def __init__(self, simulator: Simulator) -> None:
        self._random = simulator.stream("lines")
        self.loss = 0.0
        """The share of requests whose connection is lost before they arrive or are answered, or whose answers come late."""
        self.late_s = 0.0
        """Some messages, and those behind them, are so late at most."""
        self.dropped_late = 0
        """Requests of old clients that came after their next transaction had begun (docs/transactions.md: the known risk)."""

    def delay(self) -> float:
        random = self._random.random
        delay = 0.0003 + 0.002 * random()
        if self.late_s and random() < 0.15:
            delay += self.late_s * random()
        return delay

    def fate(self) -> str:
        return self._random.choice(FATES) if self.loss and self._random.random() < self.loss else ""

    def lateness(self) -> float:
        """Of what a lost connection still brings, or of an answer."""
        return self._random.choice((0.05, 0.3, 1.0)) * (0.5 + self._random.random())


class Call(replication.Call):
    """As in runs of one partition, with answers as they are on the wire."""

    __slots__ = ("method", "received_at")

    def __init__(
        self, body: Any, payload: memoryview, answer: Callable[[Any, bytes, Exception | None], None], sender: Process
    ) -> None:
        super().__init__(body, payload, answer, sender.peer)
        self.method, self.received_at = "any", asyncio.get_running_loop().time()

    def reply(self, body: Any, payload: Sequence[Any] = ()) -> None:
        super().reply(msgpack.unpackb(pack_any(body)), payload)


class Connection:
    """One process's connection to another, in place of an `RpcClient`. It connects again by itself."""

    unreachable = False

    def __init__(self, network: Network, sender: Process, receiver: Process) -> None:
        self._network, self._sender, self._receiver = network, sender, receiver
        self._loop = sender.simulator.loop
        self._last_id = 0
        self._there_at = self._back_at = 0.0
        self._waiting: dict[int, OnReply] = {}
        self._calls: dict[int, Call] = {}

    @property
    def peer(self) -> Server | None:
        """It has of a hello what names a process."""
        return self._receiver if isinstance(self._receiver, Server) else None

    def send(
        self,
        method: str,
        body: Any,
        payload: Sequence[Any],
        on_reply: OnReply,
        *,
        timeout_s: float,
        trace: bytes | None = None,
        wanted: Wanted = lambda: True,
        silent: bool = False,
    ) -> int:
        """A request that is not `wanted` any more when it arrives is dropped. `silent`: the receiver is not told that the caller
        has given up, as where a gateway goes on waiting for its client."""
        self._last_id = request_id = self._last_id + 1
        self._waiting[request_id] = on_reply
        fate = self._network.fate()
        if not self._receiver.alive or fate in LOST:
            self._later(self._sender, self._network.delay() * 20, self._fail, request_id)
        deadline = self._loop.time() + timeout_s
        self._loop.call_at(deadline, self._expire, request_id, silent, context=self._sender.context)
        if self._receiver.alive and fate != "request lost":
            arrives_at = self._there_at = max(self._loop.time() + self._network.delay(), self._there_at + 1e-6)
            if fate == "request late":
                arrives_at += self._network.lateness()
            frame = msgpack.unpackb(pack_any(body)), b"".join(payload)
            arrived = request_id, method, *frame, deadline, wanted, fate
            self._loop.call_at(arrives_at, self._arrive, *arrived, context=self._receiver.context)
        return request_id

    async def call(
        self,
        method: str,
        body: Any,
        payload: Sequence[Any] = (),
        *,
        timeout_s: float,
        trace: bytes | None = None,
        wanted: Wanted = lambda: True,
        silent: bool = False,
    ) -> Response:
        """Raises RpcFailure."""
        future: asyncio.Future[Response] = self._loop.create_future()

        def take(outcome: Response | Exception) -> None:
            if future.done():
                return
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        request_id = self.send(method, body, payload, take, timeout_s=timeout_s, wanted=wanted, silent=silent)
        try:
            return await future
        finally:
            self.cancel(request_id)

    def cancel(self, request_id: int) -> None:
        if self._waiting.pop(request_id, None) is not None and (call := self._calls.pop(request_id, None)) is not None:
            self._later(self._receiver, self._network.delay(), call.cancel)

    def reset(self) -> None:
        """Breaks the connection: no answer comes, and what is on its way may yet arrive, behind what is sent next."""
        for request_id in list(self._waiting):
            self._later(self._sender, self._network.delay(), self._fail, request_id)
        calls, self._calls = self._calls, {}
        for call in calls.values():
            self._later(self._receiver, self._network.delay(), call.cancel)
        self._there_at = self._back_at = 0.0

    def stall(self, seconds: float, *, answers: bool) -> None:
        """What is sent from now on comes late, or what is answered."""
        if answers:
            self._back_at = max(self._back_at, self._loop.time() + seconds)
        else:
            self._there_at = max(self._there_at, self._loop.time() + seconds)

    async def close(self) -> None:
        self.reset()
        self._waiting.clear()

    def _later(self, process: Process, seconds: float, callback: Callable[..., object], *args: object) -> None:
        self._loop.call_later(seconds, callback, *args, context=process.context)

    def _arrive(
        self, request_id: int, method: str, body: Any, payload: bytes, deadline: float, wanted: Wanted, fate: str
    ) -> None:
        if not wanted():
            self._network.dropped_late += 1
            return
        call = Call(body, memoryview(bytearray(payload)), lambda *answer: self._answer(request_id, fate, *answer), self._sender)
        if self._loop.time() > deadline:
            call.fail(int(ErrorCode.REQUEST_TIMED_OUT), f"{method} came after its deadline")
            return
        if request_id in self._waiting:
            self._calls[request_id] = call
        self._receiver.serve(method, call)

    def _answer(self, request_id: int, fate: str, body: Any, payload: bytes, error: Exception | None) -> None:
        self._calls.pop(request_id, None)
        if fate in LOST:
            return
        arrives_at = self._back_at = max(self._loop.time() + self._network.delay(), self._back_at + 1e-6)
        if fate == "answer late":
            arrives_at += self._network.lateness()
        outcome = error or Response(body, memoryview(payload), ())
        self._loop.call_at(arrives_at, self._answered, request_id, outcome, context=self._sender.context)

    def _answered(self, request_id: int, outcome: Response | Exception) -> None:
        if (on_reply := self._waiting.pop(request_id, None)) is not None:
            on_reply(outcome)

    def _fail(self, request_id: int) -> None:
        self._answered(request_id, Disconnected("the connection was lost", sent=True))

    def _expire(self, request_id: int, silent: bool) -> None:
        if request_id in self._waiting:
            call = self._calls.pop(request_id, None)
            self._answered(request_id, DeadlineExceeded("no answer in time", sent=True))
            if call is not None and not silent:
                self._later(self._receiver, self._network.delay(), call.cancel)


class Clients:
    """One process's connections to the members of a role, in place of `MemberClients`."""

    def __init__(self, network: Network, sender: Process, role: str, find: Callable[[Member], Process]) -> None:
        self._network, self._sender, self._role, self._find = network, sender, role, find
        self._clients: dict[int, tuple[int, Connection]] = {}

    def follow(self, image: ClusterImage) -> None:
        for node_id, member in image.members(self._role).items():
            current = self._clients.get(node_id)
            if current is None or current[0] != member.incarnation:
                if current is not None:
                    current[1].reset()
                self._clients[node_id] = member.incarnation, Connection(self._network, self._sender, self._find(member))

    def client(self, node_id: int) -> Connection | None:
        current = self._clients.get(node_id)
        return current[1] if current is not None else None

    def client_of(self, owner: Owner) -> Connection | None:
        current = self._clients.get(owner.node_id)
        return current[1] if current is not None and current[0] == owner.incarnation else None

    @property
    def all(self) -> list[Connection]:
        return [connection for _, connection in self._clients.values()]

    def reset(self) -> None:
        for connection in self.all:
            connection.reset()

    async def close(self) -> None:
        self.reset()
