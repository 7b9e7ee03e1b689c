"""All client connections of this process: their shared objects, their memory budget, and the sweep that enforces timeouts."""

import asyncio
import heapq
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil

from libs.cluster.image import ClusterImage
from libs.rpc.transport.transport import Receiver, Stream
from libs.runtime.memory import give_back_memory
from libs.telemetry.limited_lines import LimitedLines
from libs.telemetry.logs import LONGEST_VALUE, fields
from libs.wire.frames import ChunkPool
from services.gateway.config import GatewayConfig
from services.gateway.core.connection_limits import MAX_CONNECTION_CREATION_RATE, MAX_CONNECTIONS, ConnectionLimits, Refusal
from services.gateway.core.connection_timeouts import TimeoutLimits
from services.gateway.core.lasting_state import LastingState
from services.gateway.core.other_protocols import OTHER_PROTOCOLS
from services.gateway.core.produced_partitions import ProducerConnections
from services.gateway.core.request_budget import RequestBudget
from services.gateway.core.session import SessionLimits
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Exchange
from services.gateway.exchange.request_context import GatewayState
from services.gateway.gateway_meters import GatewayMeters
from services.gateway.net.client_listener import ClientListener
from services.gateway.net.connection import Connection, host_of
from services.gateway.requests.client_quotas import ClientQuotas
from services.gateway.requests.gate import Gate

log = logging.getLogger("network")

SWEEP_S = 1.0
CHECKED_A_TURN = 64
"""The connections that one turn of the event loop checks. A sweep of thousands in one turn would hold up all requests."""
IDLE_S_MIN = 0.2
"""A shorter idle time takes up to so long: sweeps cost time."""
FULL_S = 10.0
"""Connections are still refused if the last refusal was so long ago: clients wait for as long before they come again."""
REFUSED_LOG_S = CLOSED_LOG_S = 10.0

CHUNK_SIZES = ((64, 524_288), (1024, 65_536), (1 << 62, 16_384))
"""The receive chunk of a new connection, below so many open ones. No budget bounds the chunks: each connection may have one."""
EXCESS_A_SWEEP = 256
"""The connections that a sweep closes at most for a limit that was lowered."""
SPARED_BYTES = 65_536
"""A connection that holds less is not closed for the room of its requests."""


class Refused:
    """The `Receiver` of a stream that is not served. It takes one byte at most, and then reads no more."""

    def __init__(self, stream: Stream, lost: Callable[["Refused"], None] | None = None) -> None:
        self.stream = stream
        self._lost = lost

    def get_buffer(self) -> memoryview:
        return memoryview(bytearray(1))

    def buffer_updated(self, nbytes: int) -> None:
        self.stream.pause_reading()

    def descriptors_received(self, descriptors: list[int] | None) -> None:
        raise AssertionError("a TCP connection carries no descriptors")

    def write_ready(self) -> None:
        pass

    def connection_lost(self, reason: Exception | None) -> None:
        if self._lost is not None:
            self._lost(self)


class Connections:
    """The table of open connections. Listeners call `accept` for each new stream.

    A closed connection is in the table no more. But its socket and the answers in it stay until the client has read them, for
    `CLOSE_TIMEOUT_S` of the stream at most. So long it keeps its place in the limits, and its part of the budget for answers.
    """

    def __init__(
        self,
        config: GatewayConfig,
        gateway: GatewayState,
        data_path: DataPath,
        meters: GatewayMeters,
        limits: ConnectionLimits,
        quotas: ClientQuotas,
    ) -> None:
        self.config = config
        self.data_path = data_path
        self.quotas = quotas
        self.gate = Gate(gateway, data_path, quotas)
        self.loop = asyncio.get_running_loop()
        self.chunks = ChunkPool()
        self.session_limits = SessionLimits(config.connection_requests_max, config.connection_bytes_max)
        self.timeout_limits = TimeoutLimits(
            config.half_frame_s_max, config.unread_answers_s_max, config.idle_s_max, config.crowded_s_max
        )
        self.requests: RequestBudget[Connection] = RequestBudget(config.queued_request_bytes_max, config.frame_bytes_max)
        meters.requests = self.requests
        self.producers = ProducerConnections()
        self.meters = meters
        self._count = meters.by_api.completed
        self._limits = limits
        self._delayed: dict[Refused, asyncio.TimerHandle] = {}
        self.full = LastingState(FULL_S)
        """Since when connections are refused for `MAX_CONNECTIONS`."""
        meters.connections_max = limits.connections_max
        self._refused_lines = LimitedLines(log, REFUSED_LOG_S, self.loop)
        self._closed_lines = LimitedLines(log, CLOSED_LOG_S, self.loop)
        self._open: dict[Connection, None] = {}  # a set would close them in another order at every run
        self._empty = asyncio.Event()
        self._accepted_any = asyncio.Event()
        self._bytes_at_last_sweep = 0
        self._memory_returned = True
        self._sweep_interval = self._pause_s = self._interval()
        self._unchecked: list[Connection] = []  # of the sweep that has begun, the next one last
        self._timer = self.loop.call_later(self._pause_s, self._sweep)

    def __len__(self) -> int:
        return len(self._open)

    def completed(self, exchanges: Sequence[Exchange], now: float) -> None:
        """All is over for requests: the kernel has taken their answers, or their connection has ended."""
        traces = self.data_path.traces
        slow_since = now - traces.slow_s
        parted: list[Exchange] = []  # of runs, so that each request shows its own trace
        for exchange in exchanges:
            if exchange.answered_trace is not None or exchange.received_at < slow_since:
                each_apart = exchange.apart()
                for each in each_apart:
                    traces.sent(each, now)
                parted += each_apart[1:]
        self._count(exchanges, now)
        if parted:
            self._count(parted, now)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._open)

    def look_at_mutes(self) -> None:
        """Reads on muted connections that owe nothing any more: quotas have changed."""
        for connection in list(self._open):
            connection.look_at_mute()

    def follow(self, image: ClusterImage) -> None:
        """Brings the limits of a new image. Connections beyond a lowered one are closed by the next sweeps."""
        self._limits.follow(image)
        self._sweep_interval = self._interval()
        self.meters.connections_max = self._limits.connections_max

    def accept(self, stream: Stream, broker_id: int, listener: ClientListener) -> Receiver:
        host = host_of(stream.peer)
        now = self.loop.time()
        refusal = self._limits.refusal(host, broker_id, now)
        if (wait_s := self._limits.wait_s(broker_id, now)) > 0.0:
            self._note_wait(host, broker_id, wait_s)
        if refusal is not None:
            return self._refuse(stream, host, refusal)
        connection = Connection(self, stream, broker_id, listener)
        self._limits.opened(host, broker_id)
        self._open[connection] = None
        self._accepted_any.set()
        self.meters.opened()
        if log.isEnabledFor(logging.DEBUG):
            log.debug("client connected", extra=fields(peer=connection.peer, broker_id=broker_id, connections=len(self._open)))
        return connection

    def accept_wait_s(self, broker_id: int) -> float:
        """How long a port should take no connection. 0.0: it may go on."""
        return self._limits.wait_s(broker_id, self.loop.time())

    def _note_wait(self, host: str, broker_id: int, wait_s: float) -> None:
        self.meters.accept_wait_s += wait_s
        reason, limit = MAX_CONNECTION_CREATION_RATE, self._limits.creation_rate(broker_id)
        details = {"reason": reason, "limit": limit, "host": host, "broker_id": broker_id}
        self._refused_lines.write(reason, logging.WARNING, "client connections wait", **details)

    def _refuse(self, stream: Stream, host: str, refusal: Refusal) -> Receiver:
        """Closes a connection that is one too many, some of them after a delay. Kafka lets it wait at `max.connections`, and its
        client with it."""
        reason, limit, broker_id, delay_s = refusal
        self.meters.refuse(reason)
        if reason == MAX_CONNECTIONS:
            self.full.note(self.loop.time())
        details: dict[str, object] = {"reason": reason, "limit": limit, "host": host}
        if broker_id is not None:
            details["broker_id"] = broker_id
        self._refused_lines.write(reason, logging.WARNING, "client connection refused", **details)
        if not delay_s:
            stream.abort(ConnectionRefusedError(reason))
            return Refused(stream)
        refused = Refused(stream, self._delayed_lost)
        self.loop.call_soon(stream.pause_reading)  # so no TLS handshake begins
        self._delayed[refused] = self.loop.call_later(delay_s, stream.abort, ConnectionRefusedError(reason))
        self._limits.delayed = len(self._delayed)
        return refused

    def _delayed_lost(self, refused: Refused) -> None:
        self._delayed.pop(refused).cancel()
        self._limits.delayed = len(self._delayed)

    def log_closed(self, connection: Connection, reason: str, detail: str, client_id: str, user: str) -> None:
        """A client that is set up wrongly connects again and again: a host and reason has one line in `CLOSED_LOG_S`."""
        kind = detail if detail in OTHER_PROTOCOLS else ""
        key = connection.client_host, reason, kind
        details = {"reason": reason, "detail": detail, "peer": connection.peer, "client_id": client_id}
        if user:
            details["user"] = user[: LONGEST_VALUE + 1]
        self._closed_lines.write(key, logging.WARNING, "client connection closed", **details)

    def ended(self, connection: Connection, reason: str) -> None:
        self._open.pop(connection, None)
        self.meters.ended(reason)
        if log.isEnabledFor(logging.DEBUG):
            details = fields(peer=connection.peer, reason=reason, client_id=connection.client_id, connections=len(self._open))
            log.debug("client disconnected", extra=details)
        if not self._open:
            self._empty.set()

    def lost(self, connection: Connection) -> None:
        self._limits.ended(connection.client_host, connection.broker_id)
        self.meters.lost()

    def limits_debug(self) -> dict[str, object]:
        return self._limits.debug()

    @property
    def delayed(self) -> int:
        """The refused connections that are closed after a delay, which is not over."""
        return len(self._delayed)

    @property
    def chunk_size(self) -> int:
        """The size of a new connection's receive chunk."""
        return next(size for connections, size in CHUNK_SIZES if len(self._open) < connections)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of the receive chunks that connections hold now."""
        return sum(connection.chunk_bytes for connection in self._open)

    def room_freed(self) -> None:
        for connection in self.requests.admit():
            connection.has_room()

    def _close_overdue(self, now: float) -> None:
        """Closes the connections that have held up others longest, until nobody waits for room. Connections that are not overdue
        stay: their requests arrive, begin and are answered in time."""
        if not self.requests.waiting:
            return
        overdue = [(c.overdue_since(), number, c) for number, c in enumerate(self._open) if c.held_bytes > SPARED_BYTES]
        for since, _, connection in sorted(overdue):
            if since > now or not self.requests.waiting:
                return
            connection.close("queued-requests", f"{connection.held_bytes} bytes of requests, for which others wait")

    def close_unread(self, now: float) -> None:
        """Closes connections whose clients have read nothing for the longest time, as far as the budget of unread answers asks
        for it."""
        answers = self.data_path.answers
        while answers.is_crowded and (stillest := answers.stillest()) is not None:
            connection, since = stillest
            if not answers.is_exceeded and now - since < self.config.crowded_s_max:
                return
            connection.close("unread-answers", f"nothing read for {now - since:.1f} s, while unread answers take much memory")

    def connected_broker_ids(self) -> list[int]:
        """The broker ids that clients are connected to, BOOTSTRAP included."""
        return sorted({connection.broker_id for connection in self._open})

    def drain_broker(self, broker_id: int, unused_s: float, busy_s_max: float) -> int:
        """Closes the connections to that broker id that had no request for `unused_s`, and returns their number.

        A busy connection closes between two requests. After `busy_s_max` it closes once the requests that it has read are
        answered.
        """
        unused_since = self.loop.time() - unused_s
        draining = [
            connection
            for connection in self._open
            if connection.broker_id == broker_id and (not unused_s or connection.is_unused(unused_since))
        ]
        for connection in draining:
            connection.leave()
        self.loop.call_later(busy_s_max, self._drain, draining)
        return len(draining)

    def leave(self, broker_id: int, unused_s: float, is_chosen: Callable[[Connection], bool]) -> int:
        """Closes the chosen connections to that broker id which had no request for `unused_s`, and returns their number. A busy
        one closes between two requests, however long that takes."""
        unused_since = self.loop.time() - unused_s
        leaving = [
            connection
            for connection in self._open
            if connection.broker_id == broker_id
            and (not unused_s or connection.is_unused(unused_since))
            and is_chosen(connection)
        ]
        for connection in leaving:
            connection.leave()
        return len(leaving)

    async def wait_until_empty(self, quiet_s: float) -> None:
        """Returns when there has been no connection for `quiet_s`."""
        while True:
            while self._open:
                self._empty.clear()
                await self._empty.wait()
            self._accepted_any.clear()
            try:
                async with asyncio.timeout(quiet_s):
                    await self._accepted_any.wait()
            except TimeoutError:
                return

    async def drain(self) -> None:
        """Closes every connection once its requests are answered, and after `drain_s_max` the rest."""
        self._drain(list(self._open))
        if self._open:
            self._empty.clear()
            try:
                await asyncio.wait_for(self._empty.wait(), self.config.drain_s_max)
            except TimeoutError:
                pass
        self.close()

    def _drain(self, connections: Iterable[Connection]) -> None:
        for connection in connections:
            connection.drain()

    def close(self) -> None:
        self._timer.cancel()
        self._unchecked.clear()
        for refused in self._delayed:
            refused.stream.abort(ConnectionRefusedError("drain"))
        for connection in list(self._open):
            connection.close("drain")

    def idle_s_max(self, broker_id: int) -> float | None:
        return self._limits.idle_s_max(broker_id)

    def _interval(self) -> float:
        """The time from one sweep to the next, in seconds."""
        limits = self.timeout_limits
        idle_s_max = min(limits.idle_s_max, max(IDLE_S_MIN, self._limits.least_idle_s_max))
        shortest = min(limits.half_frame_s_max, limits.unread_answers_s_max, idle_s_max, limits.crowded_s_max)
        return min(SWEEP_S, shortest / 4)

    def _sweep(self) -> None:
        """Checks the next connections, and the budgets after the last ones. A sweep is spread over its interval."""
        now = self.loop.time()
        if not self._unchecked:
            self._unchecked = [*reversed(self._open)]
            self._pause_s = self._sweep_interval / max(1, ceil(len(self._unchecked) / CHECKED_A_TURN))
        self._timer = self.loop.call_later(self._pause_s, self._sweep)
        checked = self._unchecked[-CHECKED_A_TURN:]
        del self._unchecked[-CHECKED_A_TURN:]
        for connection in reversed(checked):
            if connection in self._open:
                connection.check(now)
        if not self._unchecked:
            self._check_budgets(now)

    def _check_budgets(self, now: float) -> None:
        self._close_overdue(now)
        for connection in self.data_path.answers.holders():
            connection.note_unread()
        self.close_unread(now)
        self._close_excess()
        self._limits.forget_full(now)
        self._return_memory()

    def _close_excess(self) -> None:
        """Closes connections beyond a limit that was lowered: those that were silent longest, once their requests are answered.
        So does Kafka, one by one."""
        for broker_id, limit in self._limits.exceeded():
            own = [connection for connection in self._open if broker_id is None or connection.broker_id == broker_id]
            excess = len(own) - limit
            if excess <= 0:
                continue  # they are closed, and send their last answers
            self._refused_lines.write(
                "lowered",
                logging.WARNING,
                "client connections beyond a lowered limit",
                reason=MAX_CONNECTIONS,
                limit=limit,
                excess=excess,
            )
            self._drain(heapq.nsmallest(min(excess, EXCESS_A_SWEEP), own, key=lambda connection: connection.last_active))

    def _return_memory(self) -> None:
        """Returns free memory to the system, once after each busy time: when no byte moved since the last sweep."""
        bytes_now = self.meters.bytes_in + self.meters.bytes_out
        if bytes_now != self._bytes_at_last_sweep:
            self._bytes_at_last_sweep, self._memory_returned = bytes_now, False
        elif not self._memory_returned:
            self._memory_returned = True
            self.chunks.clear()
            give_back_memory()
