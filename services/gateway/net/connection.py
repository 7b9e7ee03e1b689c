"""One client connection: frames in, requests begun in order, answers out in order. The core is `core/session.py`.

All frames of one read are handled before anything is written, and the answers of one turn leave together (the stream sees to
that). Whatever a client sends, it can only lose its own connection: every way out of here is `close(reason)`.
"""

import asyncio
import logging
import struct
from typing import TYPE_CHECKING

from libs.rpc.transport import Stream
from libs.telemetry.logs import fields
from libs.wire.api import ApiKey
from libs.wire.frames import FrameError, FrameReader
from libs.wire.headers import read_request_header
from libs.wire.primitives import ProtocolError, Reader
from services.gateway import relay
from services.gateway.api import Api
from services.gateway.core.fetch_shape import FetchShape
from services.gateway.core.patience import Patience
from services.gateway.core.produce_shape import ProduceShape
from services.gateway.core.relay_shape import RelayShape
from services.gateway.core.session import Session
from services.gateway.exchange import Answer, Exchange, FilePart, drop_answer
from services.gateway.handlers import APIS, fetch, produce

if TYPE_CHECKING:
    from services.gateway.connections import Connections

log = logging.getLogger(__name__)

PRODUCE = int(ApiKey.PRODUCE)
FETCH = int(ApiKey.FETCH)
METADATA = int(ApiKey.METADATA)
LEAVE_GROUP = int(ApiKey.LEAVE_GROUP)

OUTPUT_BYTES_MAX = 256 * 1024
"""Of answers that the client has not taken yet. Beyond, its next request does not begin."""

SHAPE_MISSES_MAX = 8
"""A producer to many topics would otherwise pay for learning a shape with each request."""

_PEEK = struct.Struct(">h")


class Connection:
    """A `Receiver` of a client's stream. `connections` is what it shares with the others: settings, counters, the data path."""

    __slots__ = (
        "_connections",
        "_fetch_shape",
        "_loop",
        "_misses",
        "_patience",
        "_paused",
        "_produce_shape",
        "_pumping",
        "_reader",
        "_relay_shapes",
        "_session",
        "_stream",
        "_task",
        "broker_id",
        "client_host",
        "closed",
        "draining",
        "half_frame_since",
        "last_active",
        "listener",
        "peer",
        "software_name",
        "software_version",
        "told",
        "withheld",
    )

    def __init__(self, connections: "Connections", stream: Stream, broker_id: int, listener: str) -> None:
        self._connections = connections
        self._loop = connections.loop
        self._stream = stream
        self._reader = FrameReader(connections.config.frame_bytes_max, pool=connections.chunks)
        self._session: Session[Exchange] = Session(connections.session_limits)
        self._produce_shape: ProduceShape | None = None
        self._fetch_shape: FetchShape | None = None
        self._relay_shapes: dict[int, RelayShape] = {}
        self._misses = 0
        self._patience = Patience(connections.patience)
        self._paused = False
        self._pumping = False
        self._task: asyncio.Task[None] | None = None
        self.broker_id = broker_id
        self.peer = stream.peer
        self.client_host = stream.peer.rpartition(":")[0] or stream.peer
        self.listener = listener
        self.software_name = ""
        self.software_version = ""
        self.told = connections.data_path.routes.addresses
        self.withheld = 0
        self.closed = False
        self.draining = False
        # For the sweep, in loop time: 0.0 means "not now".
        self.last_active = self._loop.time()
        self.half_frame_since = 0.0

    # --- what the stream tells us -------------------------------------------------------------------------------------

    def get_buffer(self) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        connections = self._connections
        reader = self._reader
        now = self.last_active = self._loop.time()
        connections.meters.bytes_in += nbytes
        reader.advance(nbytes)
        begun_before = self.half_frame_since
        try:
            for frame in reader.frames():
                begun_before = 0.0
                self._arrived(frame, now)
                if self.closed:
                    return
        except FrameError as error:
            self.close("frame", str(error))
            return
        finally:
            connections.data_path.appends.flush()
        if reader.pending:
            if not begun_before:
                self.half_frame_since = now
            connections.half_received(self, reader.held)
        elif self.half_frame_since:
            self.half_frame_since = 0.0
            connections.received_whole(self)
        if self._session.congested and not self._paused:
            self._pause()

    def descriptors_received(self, descriptors: list[int]) -> None:
        raise AssertionError("a TCP connection carries no descriptors")

    def write_ready(self) -> None:
        if not self.closed:
            self._output_moved()

    def connection_lost(self, reason: Exception | None) -> None:
        self._end("client" if reason is None else "reset")

    # --- requests -----------------------------------------------------------------------------------------------------

    def _arrived(self, frame: memoryview, now: float) -> None:
        api_key = _PEEK.unpack_from(frame)[0] if len(frame) >= 2 else -1
        exchange = Exchange(self, frame, api_key, now, api_key == PRODUCE)
        if self._session.arrive(exchange):
            self._begin(exchange)

    def _begin(self, exchange: Exchange) -> None:
        frame, exchange.frame = exchange.frame, None
        assert frame is not None, "a request begins once"
        try:
            if self._begin_alike(exchange, frame):
                return
            reader = Reader(frame)
            header = read_request_header(reader)
            api = APIS.get(header.api_key)
            if api is None:
                self.close("api", f"{header.api_key.name} is not served")
                return
            exchange.api_version = version = header.api_version
            exchange.correlation_id = header.correlation_id
            exchange.client_id = header.client_id
            if not api.min_version <= version <= api.max_version and header.api_key is not ApiKey.API_VERSIONS:
                self.close("version", f"{header.api_key.name} version {version}")
            elif exchange.api_key == PRODUCE:
                shape = produce.begin(self._connections.data_path, exchange, reader)
                if self._produce_shape is None or (shape is not None and self._misses >= SHAPE_MISSES_MAX):
                    self._produce_shape, self._misses = shape, 0
            elif exchange.api_key == FETCH:
                wanted = self._fetch_shape is None or self._misses >= SHAPE_MISSES_MAX
                fetched = fetch.begin(self._connections.data_path, exchange, reader, wants_shape=wanted)
                if wanted:
                    self._fetch_shape, self._misses = fetched, 0
            elif not api.begin(self._connections.data_path, exchange, reader):
                reader.elements_left = api.elements_max
                request = api.read_request(reader, version)
                reader.expect_end()
                answer = api.at_once(self._connections.data_path, exchange, request)
                if answer is not None:
                    self.finish(exchange, api.written(exchange.api_version, exchange.correlation_id, answer))
                    return
                self._task = self._loop.create_task(self._handle(api, exchange, request))
        except ProtocolError as error:
            self.close("malformed", str(error))
        except Exception:
            log.exception(
                "request failed", extra=fields(api=exchange.api_key, version=exchange.api_version, peer=self._stream.peer)
            )
            self.close("internal", "unexpected exception")

    def _begin_alike(self, exchange: Exchange, frame: memoryview) -> bool:
        """Whether the request repeats an earlier one, and has begun without being parsed."""
        data_path = self._connections.data_path
        if exchange.api_key == PRODUCE and self._produce_shape is not None:
            if produce.begin_alike(data_path, exchange, self._produce_shape, frame):
                return True
            self._misses += 1
        elif exchange.api_key == FETCH and self._fetch_shape is not None:
            if fetch.begin_alike(data_path, exchange, self._fetch_shape, frame):
                return True
            self._misses += 1
        else:
            shape = self._relay_shapes.get(exchange.api_key)
            return shape is not None and relay.begin_alike(data_path, exchange, shape, frame)
        return False

    async def _handle(self, api: Api, exchange: Exchange, request: object) -> None:
        context = exchange.context()
        try:
            response = await api.handle(self._connections.gateway, context, request)
            self.software_name, self.software_version = context.software_name, context.software_version
            written = api.written(exchange.api_version, exchange.correlation_id, response)
            if exchange.api_key == METADATA:
                self.told = self._connections.data_path.routes.addresses
        except asyncio.CancelledError:
            raise
        except Exception:
            # Kafka has no error that fits every response: a lost connection is what each client knows how to handle.
            log.exception("request failed", extra=fields(api=api.name, version=exchange.api_version, peer=self._stream.peer))
            self.close("internal", "unexpected exception")
            return
        self._task = None
        self.finish(exchange, written)

    def finish(self, exchange: Exchange, answer: Answer) -> None:
        if self.closed:
            drop_answer(answer)
            return
        for leaving in self._session.answer(exchange, answer):
            self._send(leaving)
        if not exchange.pipelined:
            self._stream.flush()  # nothing else can follow it in this turn
        if not self._pumping:
            self._output_moved()

    def relayed_like(self, api_key: int, shape: RelayShape) -> None:
        self._relay_shapes[api_key] = shape

    def is_alone(self, exchange: Exchange) -> bool:
        return self._session.is_alone(exchange)

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
                stream.write_file(part.descriptor, part.position, part.length, part.released)
            else:
                meters.bytes_out += len(part)
                stream.write(part)

    def _output_moved(self) -> None:
        """Begin what may begin now, and read or do not read, by how much the client leaves unread."""
        session = self._session
        session.output_blocked = self._stream.pending_bytes > OUTPUT_BYTES_MAX
        self._pumping = True
        begun = False
        try:
            while not self.closed and (exchange := session.begin_next()) is not None:
                begun = True
                self._begin(exchange)
                session.output_blocked = self._stream.pending_bytes > OUTPUT_BYTES_MAX
        finally:
            self._pumping = False
            if begun:
                self._connections.data_path.appends.flush()
        if self.closed:
            return
        if self.draining:
            if session.idle and (self._paused or not self._reader.pending):
                self.close("drain")
        elif self._paused and session.relieved and not session.output_blocked:
            self._resume()

    # --- patience and the end -----------------------------------------------------------------------------------------

    def _pause(self) -> None:
        self._paused = True
        self._stream.pause_reading()

    def _resume(self) -> None:
        self._paused = False
        if self.half_frame_since:
            self.half_frame_since = self._loop.time()  # it was us who did not read
        self._stream.resume_reading()

    def check(self, now: float) -> None:
        """Called by the sweep: closes whoever is too slow to be let wait."""
        patience = self._patience
        verdict = patience.with_unread(now, self._stream.pending_bytes if self._paused else 0)
        if verdict is None and self.half_frame_since and not self._paused:
            verdict = patience.with_half_frame(now, self.half_frame_since, self._reader.pending)
        elif verdict is None and self._session.idle:
            verdict = patience.with_silence(now, self.last_active)
            if verdict is None and not self._reader.pending:
                self._reader.rest()
        if verdict is not None:
            self.close(*verdict)

    def is_unused(self, since: float) -> bool:
        return self._session.idle and self.last_active < since

    def leave(self) -> None:
        """Closes as soon as nothing is asked, and reads on until then."""
        self.draining = True
        self._output_moved()

    def drain(self) -> None:
        """No further request is read; the connection closes when those it has are answered."""
        if self.closed:
            return
        self.draining = True
        if not self._paused:
            self._pause()
        if self._session.idle:
            self.close("drain")

    def close(self, reason: str, detail: str = "") -> None:
        if self.closed:
            return
        if reason not in ("drain", "idle"):
            client_id = next((e.client_id for e in self._session.outstanding() if e.client_id), "")
            log.warning(
                "client connection closed",
                extra=fields(reason=reason, detail=detail, peer=self._stream.peer, client_id=client_id),
            )
        self._end(reason)
        if reason == "unread":
            self._stream.abort(TimeoutError(reason))
        else:
            self._stream.close()

    def _end(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        self._reader.close()  # now, and not when the garbage collector comes to this connection
        self._connections.ended(self, reason)
        if self._task is not None:
            self._task.cancel()
            self._task = None
        for exchange in self._session.outstanding():
            if exchange.answered:
                drop_answer(exchange.answer)
            elif exchange.on_hang_up is not None:
                hang_up, exchange.on_hang_up = exchange.on_hang_up, None
                hang_up()
            elif exchange.api_key == LEAVE_GROUP and exchange.frame is not None:
                # Its last word, behind a join that waits for others: unsaid, they would wait for it until its session is over.
                self._begin(exchange)
