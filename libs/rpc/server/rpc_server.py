"""A server that answers calls. A handler is a synchronous `accept`, run in arrival order, and an asynchronous rest of the
work."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from libs.roles import ROLES
from libs.rpc.contracts.callers import CALLERS, Callers
from libs.rpc.messages.envelope import EMPTY, Hello, Introduction, hello_of, pack_hello
from libs.rpc.messages.errors import EnvelopeError
from libs.rpc.server.call import Call, Peer
from libs.rpc.server.denied_calls import DeniedCalls
from libs.rpc.server.permissions import Accept, Permissions
from libs.rpc.server.server_connection import SHARE_MIN, ServerConnection, fail_with
from libs.rpc.transport.transport import Listener, Receiver, Stream, Transport
from libs.telemetry.limited_lines import LimitedLines, RunningLoop
from libs.wire.frames import ChunkPool

__all__ = ["EMPTY", "Accept", "Call", "Hello", "Peer", "RpcServer"]

log = logging.getLogger("network")

MAX_FRAME = 128 << 20
MAX_OUTSTANDING = 64 << 20
MAX_OUTSTANDING_IN_ALL = 256 << 20
SWEEP_S = 2.0
CLOSED_LINES_S = 10.0
"""The interval of lines about connections that one host made, and that were closed for one kind of error."""


class RpcServer:
    """A server of RPC methods. `max_outstanding` bounds, per connection, the bytes of requests without an answer, and of answers
    not yet sent. `max_outstanding_in_all` bounds the bytes of requests of all connections together. A connection is read while it
    has less outstanding than is left.

    `on_turn_start` is called before the frames of one read are accepted, and `on_turn_end` after all of them: the place to do at
    once what they ask for together. `frames_per_turn` ends a turn after so many frames, if more were read. Then the first are
    under way while the last are decided.

    `callers` has a row for each method. A call that its row does not allow is answered by an error, and is counted in `denied`.

    `on_lost` is called with the peer whose connection ended, unless a newer one has replaced it.
    """

    def __init__(
        self,
        hello: Introduction,
        methods: Mapping[str, Accept],
        *,
        transport: Transport,
        max_frame: int = MAX_FRAME,
        on_turn_start: Callable[[], None] | None = None,
        on_turn_end: Callable[[], None] | None = None,
        max_outstanding: int = MAX_OUTSTANDING,
        max_outstanding_in_all: int = MAX_OUTSTANDING_IN_ALL,
        on_lost: Callable[[Peer], None] | None = None,
        frames_per_turn: int = -1,
        callers: Mapping[str, Callers] = CALLERS,
        denied: DeniedCalls | None = None,
    ) -> None:
        """Raises ValueError for a method that `callers` does not have."""
        self._hello = hello
        self._transport = transport
        self.on_turn_start = on_turn_start
        self._on_turn_end = on_turn_end
        self._on_lost = on_lost
        self._listeners: list[Listener] = []
        self._connections: dict[int, ServerConnection] = {}
        self._accepted = 0
        self.closed_lines = LimitedLines(log, CLOSED_LINES_S, RunningLoop())
        self._newest: dict[tuple[str, int], ServerConnection] = {}
        self._finishing: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._sweeper: asyncio.TimerHandle | None = None
        self.permissions = Permissions(dict(methods), callers)
        self.denied = denied if denied is not None else DeniedCalls()
        self.max_frame = max_frame
        self.max_outstanding = max_outstanding
        self.max_outstanding_in_all = max_outstanding_in_all
        self.outstanding = 0
        """Bytes of requests without an answer, of all connections."""
        self.frames_per_turn = frames_per_turn
        self.chunks = ChunkPool()
        self.closing = False
        self.refused = 0
        self.late_frames = 0

    async def listen(self, address: str) -> str:
        """Listens at an address; call it for each one. Returns the actual address. A port speaks the transport's `peer_tls`."""
        peer_tls = self._transport.peer_tls if address.startswith("tcp:") else None
        tls = peer_tls.server if peer_tls is not None else None
        listener = await self._transport.listen(address, self._connected, tls=tls)
        self._listeners.append(listener)
        if self._sweeper is None:
            self._sweep()
        return listener.address

    async def close(self, drain_s: float = 5.0) -> None:
        """Accepts no more requests, waits so long until accepted ones are answered, then closes every connection."""
        self.closing = True
        for listener in self._listeners:
            listener.close()
        await self._wait_for(lambda: not self._finishing and not any(c.pending for c in self._connections.values()), drain_s)
        for connection in list(self._connections.values()):
            connection.close()
        for task in self._finishing:
            task.cancel()
        await self._wait_for(lambda: not self._connections and not self._finishing, 10.0)
        if self._sweeper is not None:
            self._sweeper.cancel()

    @property
    def open_connections(self) -> Sequence[ServerConnection]:
        """The connections that are open, in the order in which they were accepted."""
        return tuple(self._connections.values())

    @property
    def connections(self) -> int:
        return len(self._connections)

    # For connections

    def share(self) -> int:
        """The bytes of requests that one connection may have outstanding now."""
        return min(self.max_outstanding, max(SHARE_MIN, self.max_outstanding_in_all - self.outstanding))

    def _connected(self, stream: Stream) -> Receiver:
        self._accepted += 1
        connection = self._connections[self._accepted] = ServerConnection(self, stream, self._accepted)
        stream.write(pack_hello(hello_of(self._hello)))
        return connection

    @property
    def cluster_id(self) -> str:
        """The cluster of this process; "" until it is known."""
        return hello_of(self._hello).cluster_id

    def on_hello(self, connection: ServerConnection, hello: Hello) -> None:
        """Rule: a newer connection of a peer ends its older ones, so that frames still in flight there cannot overtake.

        A caller that does not name the cluster, which this process knows, ends nobody's. Raises EnvelopeError.
        """
        if hello.role not in ROLES:
            raise EnvelopeError(f"{hello.role[:64]!r} is no role")
        own_cluster = self.cluster_id
        if own_cluster and hello.cluster_id and hello.cluster_id != own_cluster:
            raise EnvelopeError(f"{hello.role} {hello.node_id} belongs to cluster {hello.cluster_id}, not {own_cluster}")
        if hello.node_id < 0 or (own_cluster and not hello.cluster_id):
            return
        key = (hello.role, hello.node_id)
        older = self._newest.get(key)
        if older is not None and older.peer is not None:
            if older.peer.incarnation > hello.incarnation:
                raise EnvelopeError(f"{hello.role} {hello.node_id} is connected with a newer incarnation")
            older.supersede(ConnectionAbortedError("superseded by a newer connection"))
        self._newest[key] = connection

    def disconnected(self, connection: ServerConnection) -> None:
        del self._connections[connection.number]
        peer = connection.peer
        if peer is not None and self._newest.get((peer.role, peer.node_id)) is connection:
            del self._newest[peer.role, peer.node_id]
            if self._on_lost is not None:
                self._on_lost(peer)
        self._changed.set()

    def turn_ended(self) -> None:
        if self._on_turn_end is not None:
            try:
                self._on_turn_end()
            except Exception:
                log.exception("end of turn failed")

    def run(self, finish: Coroutine[Any, Any, None], call: Call) -> None:
        task = asyncio.get_running_loop().create_task(self._finish(finish, call))
        self._finishing.add(task)
        task.add_done_callback(self._finished)

    async def _finish(self, finish: Coroutine[Any, Any, None], call: Call) -> None:
        try:
            await finish
        except Exception as error:
            fail_with(call, error)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._finishing.discard(task)
        self._changed.set()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in list(self._connections.values()):
            connection.sweep(loop.time())
        self._sweeper = loop.call_later(SWEEP_S, self._sweep)

    async def _wait_for(self, condition: Callable[[], bool], timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._changed.clear()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), 0.02)
