"""One client connection: it receives frames, begins their requests in order, and sends the answers in order. Its core is
`core/session.py`.

All frames of one read are handled before anything is written, and the answers of one turn leave together, which the stream
arranges. Whatever a client sends, it can lose its own connection only: each failure ends in `close(reason)`.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Protocol

from libs.rpc.transport.transport import Stream
from libs.wire.api_keys import ApiKey
from libs.wire.frames import ChunkPool, FrameError, FrameReader
from services.gateway.config import GatewayConfig
from services.gateway.core.connection_timeouts import ConnectionTimeouts, TimeoutLimits
from services.gateway.core.other_protocols import other_protocol
from services.gateway.core.produced_partitions import ProducedPartitions, ProducerConnections
from services.gateway.core.request_budget import RequestBudget
from services.gateway.core.session import Session, SessionLimits
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Answer, ConnectionShortcuts, Exchange, FilePart, drop_answer
from services.gateway.meters import Meters
from services.gateway.requests.gate import Gate

PRODUCE = int(ApiKey.PRODUCE)

COPIED_BYTES_MAX = 65_536
"""The largest request that is copied out of its receive chunk before it waits. The chunk is larger, and would be held otherwise.
"""

UNREAD_BYTES_MIN = 65_536
"""The bytes of answers from which a connection counts in the budget of unread answers. It is the stream's low-water mark, below
which the stream calls `write_ready`."""
OUTPUT_BYTES_MAX = 256 * 1024
"""The bytes of answers that a client may leave unread. Beyond them its next request does not begin."""

UNREAD = ("unread", "unread-answers")
"""The reasons for which a connection is closed at once, and its answers are dropped."""

_API_KEY = struct.Struct(">h")


class SharedByConnections(Protocol):
    """The part of the process that all client connections share: settings, budgets, counters, the data path."""

    config: GatewayConfig
    data_path: DataPath
    gate: Gate
    loop: asyncio.AbstractEventLoop
    chunks: ChunkPool
    requests: "RequestBudget[Connection]"
    producers: ProducerConnections
    session_limits: SessionLimits
    timeout_limits: TimeoutLimits
    meters: Meters

    @property
    def chunk_size(self) -> int: ...

    @property
    def answered(self) -> Callable[[int, float, float, float], None]: ...

    def log_closed(self, connection: "Connection", reason: str, detail: str, client_id: str) -> None:
        """Logs why the gateway closes it."""

    def ended(self, connection: "Connection", reason: str) -> None:
        """Tells that nothing more is read from it. Answers may wait in its stream."""

    def lost(self, connection: "Connection") -> None:
        """Tells, after `ended` or before it, that its stream is gone."""

    def close_unread(self, now: float) -> None:
        """Closes connections, if unread answers take more than their budget."""

    def room_freed(self) -> None:
        """Tells that connections which wait for room may have it now."""


def host_of(peer: str) -> str:
    return peer.rpartition(":")[0] or peer


class Refused:
    """The `Receiver` of a stream that was aborted when it came."""

    def get_buffer(self) -> memoryview:
        raise AssertionError("nothing is read from a refused connection")

    def buffer_updated(self, nbytes: int) -> None:
        pass

    def descriptors_received(self, descriptors: list[int] | None) -> None:
        pass

    def write_ready(self) -> None:
        pass

    def connection_lost(self, reason: Exception | None) -> None:
        pass


class Connection:
    """The `Receiver` of a client's stream."""

    __slots__ = (
        "_catching_up",
        "_connections",
        "_gate",
        "_has_unread",
        "_loop",
        "_paused",
        "_pumping",
        "_reader",
        "_requests",
        "_session",
        "_stream",
        "_timeouts",
        "_waits_for_room_since",
        "broker_id",
        "client_host",
        "client_id",
        "closed",
        "draining",
        "half_frame_since",
        "known_addresses",
        "last_active",
        "leaving",
        "listener",
        "opened_at",
        "peer",
        "produced",
        "shortcuts",
        "software_name",
        "software_version",
        "withheld_hints",
    )

    def __init__(self, connections: SharedByConnections, stream: Stream, broker_id: int, listener: str) -> None:
        self._connections = connections
        self._gate = connections.gate
        self._loop = connections.loop
        self._stream = stream
        self._requests = connections.requests
        self._reader = FrameReader(connections.config.frame_bytes_max, chunk_size=connections.chunk_size, pool=connections.chunks)
        self._session: Session[Exchange] = Session(connections.session_limits, connections.requests)
        self._timeouts = ConnectionTimeouts(connections.timeout_limits)
        self._paused = False
        self._waits_for_room_since = 0.0
        self._has_unread = False  # much of it: it counts in the budget
        self._pumping = False
        self._catching_up = False
        self.broker_id = broker_id
        self.peer = stream.peer
        self.client_host = host_of(stream.peer)
        self.client_id = ""
        self.listener = listener
        self.software_name = ""
        self.software_version = ""
        self.known_addresses = connections.data_path.routes.addresses
        self.produced = ProducedPartitions(broker_id, connections.producers)
        self.withheld_hints = 0
        self.shortcuts = ConnectionShortcuts(enabled=connections.config.shortcuts)
        self.closed = False
        self.leaving = False
        self.draining = False
        # For the sweep, in loop time. 0.0: no frame is incomplete.
        self.opened_at = self.last_active = self._loop.time()
        self.half_frame_since = 0.0

    # --- Receiver: calls of the stream --------------------------------------------------------------------------------

    def get_buffer(self) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        connections = self._connections
        reader = self._reader
        now = self.last_active = self._loop.time()
        connections.meters.bytes_in += nbytes
        reader.advance(nbytes)
        incomplete_since = self.half_frame_since
        try:
            for frame in reader.frames():
                incomplete_since = 0.0
                self._frame_received(frame, now)
                if self.closed:
                    return
        except FrameError as error:
            claim = reader.next_frame_claims
            self.close("frame", (other_protocol(claim) if claim is not None else None) or str(error))
            return
        finally:
            connections.data_path.appends.flush()
        requests = self._requests
        if reader.pending:
            if not incomplete_since:
                if self.half_frame_since:
                    requests.completed(self)
                self.half_frame_since = now
            needed = reader.needed
        else:
            needed = 0
            if self.half_frame_since:
                self.half_frame_since = 0.0
                requests.completed(self)
        if (needed or requests.used > requests.short_at) and not requests.ask(self, needed):
            self._wait_for_room()
        if self._session.congested and not self._paused and not self.closed:
            self._pause()

    def descriptors_received(self, descriptors: list[int] | None) -> None:
        raise AssertionError("a TCP connection carries no descriptors")

    def write_ready(self) -> None:
        if not self.closed:
            self._resume_output()

    def connection_lost(self, reason: Exception | None) -> None:
        self._connections.lost(self)
        self._connections.data_path.answers.forget(self)
        self._end("client" if reason is None else "reset")

    # --- requests -----------------------------------------------------------------------------------------------------

    def _frame_received(self, frame: memoryview, now: float) -> None:
        api_key = _API_KEY.unpack_from(frame)[0] if len(frame) >= 2 else -1
        exchange = Exchange(self, frame, api_key, now, api_key == PRODUCE)
        if self._session.arrive(exchange):
            self._gate.begin(exchange)
        elif len(frame) <= COPIED_BYTES_MAX:
            exchange.frame = memoryview(bytes(frame))

    def finish(self, exchange: Exchange, answer: Answer) -> None:
        if self.closed:
            drop_answer(answer)
            return
        for leaving in self._session.answer(exchange, answer):
            self._send(leaving)
        if self._requests.waiting:
            if self._waits_for_room_since and self._requests.ask_again(self):
                self.has_room()
            self._connections.room_freed()
        if not exchange.pipelined:
            self._stream.flush()  # no other answer can follow in this turn
        if not self._pumping:
            self._resume_output()

    def is_only_request(self, exchange: Exchange) -> bool:
        return self._session.is_only_request(exchange)

    def _send(self, exchange: Exchange) -> None:
        answer, exchange.answer = exchange.answer, None
        stream, meters = self._stream, self._connections.meters
        self._connections.answered(exchange.api_key, exchange.received_at, exchange.sent_at, self._loop.time())
        if answer is None:
            return
        if isinstance(answer, (bytes, bytearray)):
            meters.bytes_out += len(answer)
            stream.write(answer)
            return
        for part in answer:
            if isinstance(part, FilePart):
                meters.bytes_out += part.length
                stream.write_file(part.descriptor, part.position, part.length, part.released, cached=part.cached)
            else:
                meters.bytes_out += len(part)
                stream.write(part)

    def _resume_output(self) -> None:
        """Begins the requests that may begin now, and reads or stops reading, by how much the client leaves unread."""
        session, stream = self._session, self._stream
        session.output_blocked = stream.pending_bytes > OUTPUT_BYTES_MAX
        self._pumping = True
        began_any = False
        try:
            while not self.closed and (exchange := session.begin_next()) is not None:
                began_any = True
                self._gate.begin(exchange)
                session.output_blocked = stream.pending_bytes > OUTPUT_BYTES_MAX
        finally:
            self._pumping = False
            if began_any:
                self._connections.data_path.appends.flush()
        if self._has_unread or stream.pending_bytes > UNREAD_BYTES_MIN:
            self.note_unread()
        if self.closed:
            return
        if self.draining:
            if session.idle:
                self.close("drain")
            return
        if self._paused and session.relieved and not session.output_blocked:
            self._resume()
        if self.leaving:
            self._leave_if_idle()

    def note_unread(self) -> None:
        """Brings the budget of unread answers up to date. A closed connection counts while answers wait in its stream."""
        stream, answers = self._stream, self._connections.data_path.answers
        unread = stream.pending_bytes - stream.pending_file_bytes
        self._has_unread = unread > UNREAD_BYTES_MIN
        now = self._loop.time()
        answers.note(self, unread if self._has_unread else 0, stream.bytes_sent, now)
        if answers.is_exceeded:
            self._connections.close_unread(now)

    # --- timeouts and closing -----------------------------------------------------------------------------------------

    def _pause(self) -> None:
        self._paused = True
        self._stream.pause_reading()

    def _resume(self) -> None:
        self._paused = False
        self._read_on()

    def _wait_for_room(self) -> None:
        self._waits_for_room_since = self._loop.time()
        self._stream.pause_reading()

    def has_room(self) -> None:
        """Reads on, after a wait for room in the budget."""
        self._waits_for_room_since = 0.0
        self._read_on()

    def _read_on(self) -> None:
        if self._paused or self._waits_for_room_since:
            return
        if self.half_frame_since:
            self.half_frame_since = self._loop.time()  # the pause was ours, not the client's
        self._stream.resume_reading()
        if self.leaving:
            self._catch_up()

    def check(self, now: float) -> None:
        """Closes the connection if its client exceeds a timeout. The sweep of `Connections` calls it."""
        timeouts = self._timeouts
        verdict = timeouts.check_unread(now, self._stream.pending_bytes if self._paused else 0)
        if verdict is None and self._waits_for_room_since:
            verdict = timeouts.check_room(now, self._waits_for_room_since)
        elif verdict is None and self.half_frame_since and not self._paused:
            verdict = timeouts.check_half_frame(now, self.half_frame_since, self._reader.pending)
        elif verdict is None and self._session.idle:
            verdict = timeouts.check_idle(now, self.last_active)
            if verdict is None and not self._reader.pending:
                self._reader.rest()
        elif verdict is None and self._reader.is_unused:
            self._reader.rest()  # a long poll may take minutes
        if verdict is not None:
            reason, detail = verdict
            self.close(reason, detail)

    @property
    def queued_bytes(self) -> int:
        return self._session.bytes

    @property
    def held_bytes(self) -> int:
        """The bytes of its requests, the incomplete one included."""
        return self._session.bytes + self._requests.room_of(self)

    @property
    def chunk_bytes(self) -> int:
        return self._reader.held

    def debug(self) -> dict[str, object]:
        """What it waits for, and what it holds."""
        running = self._session.first_running
        return {
            "running_api": running.api_key if running is not None else None,
            "outstanding": sum(1 for _ in self._session.outstanding()),
            "held_bytes": self.held_bytes,
            "unread_bytes": self._stream.pending_bytes,
            "paused": self._paused,
            "waits_for_room": bool(self._waits_for_room_since),
            "half_frame": bool(self.half_frame_since),
            "leaving": self.leaving or self.draining,
        }

    def overdue_since(self) -> float:
        """The loop time from which the connection may be closed for the room that others wait for."""
        running, waiting = self._session.first_running, self._session.first_waiting
        return self._timeouts.overdue_since(
            0.0 if self._waits_for_room_since else self.half_frame_since,
            self._reader.pending,
            waiting.received_at if waiting is not None else 0.0,
            running.received_at if running is not None else 0.0,
        )

    def is_unused(self, since: float) -> bool:
        return self._session.idle and self.last_active < since

    def leave(self) -> None:
        """Closes the connection as soon as no request is outstanding. Until then requests are read as usual."""
        if not self.leaving:
            self.leaving = True
            self._catch_up()

    def _catch_up(self) -> None:
        """Keeps a leaving connection open until all requests in the kernel's buffer are read. Closing would lose them, and even
        answers that the client has not read yet."""
        if not self._catching_up:
            self._catching_up = True
            self._loop.call_later(0.0, self._caught_up, self.last_active)  # a timer: the loop looks at sockets before it

    def _caught_up(self, last_active: float) -> None:
        self._catching_up = False
        if self.closed:
            return
        if self.last_active != last_active:
            self._catch_up()
        else:
            self._leave_if_idle()

    def _leave_if_idle(self) -> None:
        is_read = not (self._paused or self._waits_for_room_since or self._catching_up)
        if is_read and self._session.idle and not self._reader.pending:
            self.close("drain")

    def drain(self) -> None:
        """Reads no further request, and closes the connection once the outstanding ones are answered."""
        if self.closed:
            return
        self.draining = True
        if not self._paused:
            self._pause()
        if self._session.idle:
            self.close("drain")

    def close(self, reason: str, detail: str = "") -> None:
        """Closes the connection. Answers that wait in its stream are still sent, unless the reason is that nobody reads them."""
        if not self.closed:
            self._close(reason, detail)
        elif reason in UNREAD:
            self._abort(reason)

    def _close(self, reason: str, detail: str) -> None:
        if reason not in ("drain", "idle"):
            client_id = next((e.client_id for e in self._session.outstanding() if e.client_id), "")
            self._connections.log_closed(self, reason, detail, client_id)
        self._end(reason)
        if reason in UNREAD:
            self._abort(reason)
            return
        self._stream.close()
        if self._stream.pending_bytes > UNREAD_BYTES_MIN:
            self.note_unread()

    def _abort(self, reason: str) -> None:
        self._stream.abort(TimeoutError(reason))
        self._connections.data_path.answers.forget(self)

    def _end(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        self.produced.end()
        self._reader.close()  # at once, and not at the next garbage collection
        self._connections.ended(self, reason)
        for exchange in self._session.outstanding():
            if exchange.answered:
                drop_answer(exchange.answer)
            elif exchange.on_hang_up is not None:
                hang_up, exchange.on_hang_up = exchange.on_hang_up, None
                hang_up()
            elif exchange.frame is not None:
                self._gate.client_gone(exchange)
        self._session.end()
        self._requests.ended(self)
        if self._requests.waiting:
            self._connections.room_freed()
