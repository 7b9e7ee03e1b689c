"""A client that calls one server over one multiplexed connection."""

import asyncio
import contextlib
import errno
import logging
from collections.abc import Sequence
from typing import Any

from libs.rpc.client.client_connection import ClientConnection, OnReply, Response
from libs.rpc.messages.envelope import Frame, Hello, Introduction, Kind, hello_of, pack_any, payload_size
from libs.rpc.messages.errors import (
    BROKER_NOT_AVAILABLE,
    UNKNOWN_SERVER_ERROR,
    DeadlineExceeded,
    Disconnected,
    EnvelopeError,
    Overloaded,
    RpcError,
    ShuttingDown,
)
from libs.rpc.messages.peer_names import require_named
from libs.rpc.transport.transport import Buffer, Receiver, Stream, Transport

__all__ = ["Hello", "Introduction", "OnReply", "Response", "RpcClient"]

log = logging.getLogger("network")

MAX_FRAME = 128 << 20
MAX_OUTSTANDING = 64 << 20
CALL_COST = 256
CONNECT_TIMEOUT_S = 2.0
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.02, 1.0
BACKOFF_RESET_S = 1.0
"""How long a connection must live to end the back-off."""
SWEEP_S = 0.01
"""The precision of deadlines."""
NO_ROUTE = (errno.EHOSTUNREACH, errno.ENETUNREACH)


class _Pending:
    __slots__ = ("body", "connection", "cost", "deadline", "method", "on_reply", "payload", "start", "trace")

    def __init__(
        self,
        on_reply: OnReply,
        method: str,
        body: bytes,
        payload: Sequence[Buffer],
        trace: bytes | None,
        deadline: float,
        cost: int,
    ) -> None:
        self.on_reply = on_reply
        self.method = method
        self.body = body
        self.payload = payload
        self.trace = trace
        self.deadline = deadline
        self.cost = cost
        self.connection: ClientConnection | None = None  # None: it waits for a connection
        self.start = 0

    @property
    def sent(self) -> bool:
        return self.connection is not None and self.connection.has_sent(self.start)


class _CallFuture(asyncio.Future[Response]):
    """A future whose cancellation also cancels the call at the server."""

    client: "RpcClient"
    request_id: int

    def cancel(self, msg: Any | None = None) -> bool:
        if super().cancel(msg):
            self.client.cancel(self.request_id)
            return True
        return False

    def take(self, outcome: Response | Exception) -> None:
        if self.done():
            if isinstance(outcome, Response):
                self.client.close_descriptors(outcome.descriptors)
        elif isinstance(outcome, Response):
            self.set_result(outcome)
        else:
            self.set_exception(outcome)


class RpcClient:
    """A client of one server. The order of calls is their order on the wire. It connects on demand, and a lost connection fails
    the calls that wait for answers on it. A server that is silent while calls are under way counts as lost (`silence.py`).

    A call that is made without a connection waits for the next attempt, and fails with it (`Disconnected`, not sent). Use one
    client per pair of processes: a server ends the older of two connections of the same node.
    """

    def __init__(
        self,
        address: str,
        hello: Introduction,
        transport: Transport,
        *,
        max_frame: int = MAX_FRAME,
        max_outstanding: int = MAX_OUTSTANDING,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        expected: tuple[str, int] | None = None,
    ) -> None:
        """`expected` (role, node id): any other process that answers at the address is refused."""
        self.address = address
        self._hello = hello
        self._transport = transport
        self._max_frame = max_frame
        self._max_outstanding = max_outstanding
        self._connect_timeout_s = connect_timeout_s
        self._expected = expected
        self._loop = asyncio.get_running_loop()
        self._connection: ClientConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._greeting: asyncio.Future[None] | None = None
        self._backoff_s = 0.0
        self._pending: dict[int, _Pending] = {}
        self._waiting: list[int] = []  # for a connection, in order
        self._outstanding = 0
        self._last_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.unreachable = False
        """Whether the server fell silent, or could not be connected to in time, and has not answered since. The client tries to
        connect until it answers or refuses."""
        self.peer: Hello | None = None
        """The hello of the server that answered last."""

    @property
    def connected(self) -> bool:
        return self._connection is not None

    @property
    def connection(self) -> ClientConnection | None:
        """The open connection. None while there is none."""
        return self._connection

    @property
    def outstanding(self) -> int:
        """Bytes of requests that wait for answers."""
        return self._outstanding

    # Calling

    def call(
        self, method: str, body: object, payload: Sequence[Buffer] = (), *, timeout_s: float, trace: bytes | None = None
    ) -> _CallFuture:
        """Sends a request now. Raises Overloaded at once; the future raises RpcError, Disconnected or DeadlineExceeded."""
        future = _CallFuture(loop=self._loop)
        future.client = self
        future.request_id = self.send(method, body, payload, future.take, timeout_s=timeout_s, trace=trace)
        return future

    def send(
        self,
        method: str,
        body: object,
        payload: Sequence[Buffer],
        on_reply: OnReply,
        *,
        timeout_s: float,
        trace: bytes | None = None,
    ) -> int:
        """`call` for hot callers: `on_reply(Response or exception)` is called once, never from in here. Returns the request id.

        `body` is a contract, a list, or packed already (bytes). Payload buffers must not change until the answer.
        """
        if self._closed:
            raise Disconnected(f"{self.address}: the client is closed", sent=False)
        packed = body if type(body) is bytes else pack_any(body)
        size = payload_size(payload) if payload else 0
        cost = len(packed) + size + CALL_COST
        if self._outstanding + cost > self._max_outstanding and self._pending:
            raise Overloaded(f"{self._outstanding} bytes wait for {self.address}")
        self._outstanding += cost
        self._last_id = request_id = self._last_id + 1
        now = self._loop.time()
        deadline = now + timeout_s
        self._pending[request_id] = pending = _Pending(on_reply, method, packed, payload, trace, deadline, cost)
        if self._connection is not None:
            self._transmit(self._connection, request_id, pending, size, now)
        else:
            self._waiting.append(request_id)
            self._connect_soon()
        if self._timer is None:
            self._timer = self._loop.call_at(deadline, self._expire)
        elif deadline + SWEEP_S < self._timer.when():
            self._timer.cancel()
            self._timer = self._loop.call_at(deadline, self._expire)
        return request_id

    def rest(self) -> None:
        """Cancels the timers if no call waits for an answer. For callers that make a call now and then: timers otherwise outlive
        the calls, so that many calls in a row share them."""
        if self._pending:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connection is not None:
            self._connection.rest()

    def in_flight(self) -> list[tuple[int, OnReply]]:
        """Calls that wait for answers, in their order: request id and completion callback."""
        return [(request_id, pending.on_reply) for request_id, pending in self._pending.items()]

    def cancel(self, request_id: int) -> None:
        """Cancels a call: `on_reply` is not called, and the server is told."""
        pending = self._take(request_id)
        if pending is not None:
            self._send_cancel(request_id, pending)

    def oneway(self, method: str, body: object, payload: Sequence[Buffer] = (), *, trace: bytes | None = None) -> bool:
        """Sends a message that has no answer. False: it was not sent, since there is no connection (yet) or too much waits in
        it."""
        connection = self._connection
        if connection is None:
            self._connect_soon()
            return False
        if connection.unread_bytes > self._max_outstanding:
            return False
        size = payload_size(payload)
        now_ms = int(self._loop.time() * 1000)
        connection.send(Kind.ONEWAY, 0, method, 60_000, trace, pack_any(body), payload, size, now_ms)
        return True

    def _transmit(self, connection: ClientConnection, request_id: int, pending: _Pending, size: int, now: float) -> None:
        left_ms = max(1, int((pending.deadline - now) * 1000))
        pending.connection = connection
        pending.start = connection.send(
            *(Kind.REQUEST, request_id, pending.method, left_ms, pending.trace, pending.body, pending.payload),
            *(size, int(now * 1000)),
        )
        if not connection.watched:
            connection.watch()

    # From the connection

    def on_hello(self, connection: ClientConnection, hello: Hello) -> None:
        if (tls := connection.stream.tls) is not None:
            require_named(hello, tls.peer_uris)
        if self._expected not in (None, (hello.role, hello.node_id)):
            raise EnvelopeError(f"{self.address} is {hello.role} {hello.node_id}, not {self._expected}")
        own_cluster = hello_of(self._hello).cluster_id
        if own_cluster and hello.cluster_id and hello.cluster_id != own_cluster:
            raise EnvelopeError(f"{self.address} belongs to cluster {hello.cluster_id}")
        self.peer = hello
        self._connection = connection
        self.unreachable = False
        waiting, self._waiting = self._waiting, []
        for request_id in waiting:
            pending = self._pending.get(request_id)
            if pending is not None:
                self._transmit(connection, request_id, pending, payload_size(pending.payload), self._loop.time())
        if self._greeting is not None and not self._greeting.done():
            self._greeting.set_result(None)

    def on_response(self, connection: ClientConnection, frame: Frame, descriptors: tuple[int, ...]) -> None:
        pending = self._pending.pop(frame.request_id, None)
        if pending is None:
            self.close_descriptors(descriptors)
            return
        self._outstanding -= pending.cost
        if frame.kind == Kind.RESPONSE:
            self._give(pending, Response(frame.body, frame.payload, descriptors))
            return
        self.close_descriptors(descriptors)
        match frame.body:
            case [int(code), *_] if code == BROKER_NOT_AVAILABLE:  # only a server answers this code, never a handler
                self._give(pending, ShuttingDown(f"{self.address} is shutting down"))
            case [int(code), str(message), *_]:
                self._give(pending, RpcError(code, message))
            case _:
                self._give(pending, RpcError(UNKNOWN_SERVER_ERROR, "the server failed, and did not say how"))

    def close_descriptors(self, fds: Sequence[int]) -> None:
        """Closes descriptors that came with an answer which nobody takes."""
        for fd in fds:
            self._transport.passed_files.close(fd)

    def awaits_answers(self) -> bool:
        return bool(self._pending)

    def on_silent(self, connection: ClientConnection) -> None:
        self.unreachable = True
        log.warning("server is silent", extra={"fields": {"address": self.address, "calls": len(self._pending)}})

    def on_disconnected(self, connection: ClientConnection, reason: Exception | None) -> None:
        if self._connection is connection:
            self._connection = None
            lived_s = self._loop.time() - connection.since
            self._backoff_s = 0.0 if lived_s > BACKOFF_RESET_S else self._next_backoff()
        if self._greeting is not None and not self._greeting.done():
            self._greeting.set_exception(reason or ConnectionResetError("closed before its hello"))
        lost_ids = [request_id for request_id, pending in self._pending.items() if pending.connection is connection]
        self._fail(lost_ids, f"lost: {reason}" if reason else "closed by the peer")
        if self.unreachable and not self._closed:
            self._connect_soon()

    def _give(self, pending: _Pending, outcome: Response | Exception) -> None:
        try:
            pending.on_reply(outcome)
        except Exception:
            log.exception("on_reply failed", extra={"fields": {"method": pending.method}})

    # Connecting

    async def ready(self, timeout_s: float) -> None:
        """Waits until there is a connection, trying again as often as it takes. Raises DeadlineExceeded."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._connection is None:
                    self._connect_soon()
                    if self._connecting is not None:
                        await asyncio.wait([self._connecting])
        except TimeoutError:
            raise DeadlineExceeded(f"no connection to {self.address}", sent=False) from None

    def _connect_soon(self) -> None:
        if self._closed:
            raise Disconnected(f"{self.address}: the client is closed", sent=False)
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        stream: Stream | None = None
        try:
            if self._backoff_s:
                await asyncio.sleep(self._backoff_s)
            self._greeting = greeting = self._loop.create_future()
            async with asyncio.timeout(self._connect_timeout_s):
                stream = await self._transport.connect(self.address, self._make_connection, self._connect_timeout_s)
                await greeting
        except Exception as error:  # whatever failed, the calls that wait must fail too
            if stream is not None:
                stream.abort(error)
            self._backoff_s = self._next_backoff()
            self.unreachable = isinstance(error, TimeoutError) or getattr(error, "errno", None) in NO_ROUTE
            waiting, self._waiting = self._waiting, []
            self._fail(waiting, f"cannot connect: {error}")
        finally:
            self._greeting = None
            self._connecting = None
            if (self._waiting or self.unreachable) and self._connection is None and not self._closed:
                self._connect_soon()  # calls made by failed callers, or since a first connection was lost again

    def _make_connection(self, stream: Stream) -> Receiver:
        return ClientConnection(self, stream, hello_of(self._hello), self._max_frame, self._transport.silence_s)

    def _next_backoff(self) -> float:
        return min(BACKOFF_MAX_S, 2 * self._backoff_s or BACKOFF_FIRST_S)

    # Ends of calls

    def _take(self, request_id: int) -> _Pending | None:
        pending = self._pending.pop(request_id, None)
        if pending is not None:
            self._outstanding -= pending.cost
        return pending

    def _fail(self, request_ids: Sequence[int], message: str) -> None:
        for request_id in request_ids:
            pending = self._take(request_id)
            if pending is not None:
                self._give(pending, Disconnected(f"{self.address}: {pending.method}: {message}", sent=pending.sent))

    def _send_cancel(self, request_id: int, pending: _Pending) -> None:
        if pending.connection is not None and pending.connection is self._connection:
            pending.connection.send(Kind.CANCEL, request_id, "", 0, None, b"", (), 0, 0)

    def _expire(self) -> None:
        """The callback of the one timer for all calls. It was set for the earliest deadline of that time, so it finds few calls
        and looks through all."""
        now = self._loop.time()
        late = [request_id for request_id, pending in self._pending.items() if pending.deadline <= now]
        for request_id in late:
            pending = self._take(request_id)
            if pending is not None:
                self._send_cancel(request_id, pending)
                self._give(pending, DeadlineExceeded(f"{self.address}: no answer to {pending.method}", sent=pending.sent))
        self._timer = None
        if self._pending:
            earliest = min(pending.deadline for pending in self._pending.values())
            self._timer = self._loop.call_at(max(earliest, now + SWEEP_S), self._expire)

    async def close(self) -> None:
        """Closes the connection and fails all calls that wait. It may be called again."""
        self._closed = True
        if self._connecting is not None:
            connecting = self._connecting
            connecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await connecting
        self._waiting = []
        if self._connection is not None:
            self._connection.stream.close()
            self._connection = None
        self._fail(list(self._pending), "the client is closed")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
