"""The connection of a caller, at the server."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from libs.rpc.files.page_cache import WINDOW
from libs.rpc.messages.envelope import (
    NO_REQUEST,
    Frame,
    Hello,
    Kind,
    local_frame,
    pack_body,
    pack_frame,
    payload_size,
    read_hello,
    unpack_frame,
)
from libs.rpc.messages.errors import (
    BROKER_NOT_AVAILABLE,
    INVALID_REQUEST,
    KAFKA_STORAGE_ERROR,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_VERSION,
    ContractError,
    Denied,
    EnvelopeError,
    RpcError,
)
from libs.rpc.messages.peer_names import require_named
from libs.rpc.server.call import Call, Peer
from libs.rpc.server.cold_answer import ColdAnswer
from libs.rpc.server.frame_age import FrameAge
from libs.rpc.server.permissions import Accept
from libs.rpc.transport.descriptors import close_all
from libs.rpc.transport.frame_link import LINKED_BYTES, LinkEnd
from libs.rpc.transport.transport import Buffer, FileSlice, Stream
from libs.wire.frames import FrameError, FrameReader

if TYPE_CHECKING:
    from libs.rpc.server.rpc_server import RpcServer

log = logging.getLogger("network")

CALL_COST = 512
"""The cost of a waiting call beside its frame, for the budget."""
SHARE_MIN = 1 << 20
"""A connection with less outstanding is read, whatever the others have. What they wait for is small: a follower's pull."""
ERRORS_UNREAD_MAX = 1 << 20
"""A connection with more bytes of errors that its peer does not read is not read. Refusals cost the server nothing else, so the
budget of requests does not bound them."""
HELLO_BYTES_MAX = 16_384
HELLO_TIMEOUT_S = 10.0
PAUSED_SIGN_S = 0.5
"""How often a server that has stopped reading a connection sends a sign of life on it: it does not come to a client's ping."""
STALL_TIMEOUT_S = 30.0
"""How long a connection may sit on half a frame, or on unread answers, without progress before it is closed."""


class ServerConnection:
    """One connection of a server. It cuts frames, calls `accept` in arrival order, and keeps the budget. It refuses by closing,
    and never harms another connection."""

    def __init__(self, server: "RpcServer", stream: Stream, number: int) -> None:
        self._server = server
        self._stream = stream
        self.number = number
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(HELLO_BYTES_MAX, pool=server.chunks)
        self._age = FrameAge()
        self._paused = False
        self._more = False
        self._link = stream.link
        if self._link is not None:
            self._link.on_frames = self._frames_linked
        self._signs: asyncio.TimerHandle | None = None  # of life, while paused
        self._outstanding = 0
        self._unread_errors = 0  # bytes, at most
        self.peer: Peer | None = None
        self._allowed: Mapping[str, Accept] = {}  # by method: what the peer may call
        self.pending: dict[int, Call] = {}
        self._cold: dict[int, ColdAnswer] = {}
        self._since = self._loop.time()
        self._progress = (0, 0)  # bytes received and sent at the last sweep
        self._received = 0

    @property
    def is_read(self) -> bool:
        """Whether it takes what arrives."""
        return self._stream.reading

    @property
    def unread_bytes(self) -> int:
        """The bytes of answers that the kernel has not taken, since the peer does not read."""
        return self._stream.pending_bytes

    # From the stream

    def get_buffer(self) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.advance(nbytes)
        self._received += nbytes
        self._turn()

    def _turn(self) -> None:
        left = self._server.frames_per_turn
        if (begin := self._server.on_turn_start) is not None:
            begin()
        try:
            now = self._loop.time()
            for frame in self._reader.frames():
                self._frame(unpack_frame(frame), len(frame), now)
                left -= 1
                if self._stream.closing or not left:
                    break
            if self._link is not None and self.peer is not None:  # the hello comes by the socket
                left = self._take_linked(self._link, left, now)
        except NoClusterNamed as error:
            log.info("connection ends", extra={"fields": {"peer": self._stream.peer, "reason": str(error)}})
            self._stream.abort(error)
        except (FrameError, EnvelopeError) as error:
            self.refuse(str(error), error)
        finally:
            self._server.turn_ended()
        self._go_on(not left and self._reader.pending > 0)
        self._balance()
        self._announce_linked()

    def _take_linked(self, link: LinkEnd, left: int, now: float) -> int:
        """Accepts frames that came by the link, of one read's bytes at most. Returns how many the turn may take yet."""
        room = LINKED_BYTES
        while link.frames and left and room > 0 and not self._stream.closing:
            frame, size = link.take()
            self._frame(frame, size, now)
            left -= 1
            room -= size
        return left

    def _frames_linked(self) -> None:
        """Takes what came by the link, unless it has to wait, as what comes by the socket does.

        What overtook the hello waits for it, in the turn that brings it.
        """
        if self._stream.reading and self.peer is not None:
            self._turn()

    def _resume_reading(self) -> None:
        self._stream.resume_reading()
        self._announce_linked()

    def _announce_linked(self) -> None:
        if self._link is not None and self._link.frames and self._stream.reading:
            self._link.announce()

    def _go_on(self, more: bool) -> None:
        """Accepts frames that were read already before it reads again."""
        if self._stream.closing:
            return
        if more:
            self._loop.call_soon(self._next_turn)
        if more is not self._more:
            self._more = more
            if more:
                self._stream.pause_reading()
            elif not self._paused:
                self._resume_reading()

    def _next_turn(self) -> None:
        if not self._stream.closing:
            self._turn()

    def descriptors_received(self, fds: list[int] | None) -> None:
        close_all(fds or ())  # no method takes any yet

    def write_ready(self) -> None:
        self._balance()

    def connection_lost(self, reason: Exception | None) -> None:
        self._server.disconnected(self)
        self._server.outstanding -= self._outstanding
        self._outstanding = 0
        pending, self.pending = self.pending, {}
        for call in pending.values():
            self._cancel(call)
        cold, self._cold = self._cold, {}
        for answer in cold.values():
            answer.drop()
        self._end_signs()
        if self._link is not None:
            self._link.end()

    # Frames

    def _frame(self, frame: Frame, size: int, now: float) -> None:
        kind = frame.kind
        peer = self.peer
        if peer is None:
            self._greeted(read_hello(frame))
            if frame.sent_at_ms:
                self._age.age_ms(frame.sent_at_ms, int(now * 1000))
        elif kind == Kind.REQUEST:
            request_id = frame.request_id
            if request_id in self.pending:
                raise EnvelopeError(f"request id {request_id} is in use")
            cost = size + CALL_COST
            deadline = self._deadline(frame, now)
            call = Call(self, peer, request_id, frame.method, frame.body, frame.payload, deadline, frame.trace, cost, now)
            self.pending[request_id] = call
            self._outstanding += cost
            self._server.outstanding += cost
            self._accept(call, deadline <= now)
        elif kind == Kind.ONEWAY:
            deadline = self._deadline(frame, now)
            call = Call(None, peer, frame.request_id, frame.method, frame.body, frame.payload, deadline, frame.trace, 0, now)
            self._accept(call, deadline <= now)
        elif kind == Kind.CANCEL:
            cancelled = self.pending.pop(frame.request_id, None)
            if cancelled is not None:
                self._outstanding -= cancelled.cost
                self._server.outstanding -= cancelled.cost
                self._cancel(cancelled)
                if (answer := self._cold.pop(frame.request_id, None)) is not None:
                    answer.drop()
        else:
            raise EnvelopeError(f"frame of kind {kind}")

    def _deadline(self, frame: Frame, now: float) -> float:
        left_ms = frame.deadline_ms
        if frame.sent_at_ms:
            left_ms -= self._age.age_ms(frame.sent_at_ms, int(now * 1000))
        return now + left_ms / 1000

    def _greeted(self, hello: Hello) -> None:
        if (tls := self._stream.tls) is not None:
            require_named(hello, tls.peer_uris)
        self._server.on_hello(self, hello)  # it refuses by EnvelopeError
        self._reader.allow(self._server.max_frame)
        self.peer = Peer(
            hello.role,
            hello.node_id,
            hello.incarnation,
            hello.version,
            hello.feature_level,
            hello.cluster_id,
            self._stream.peer_uid,
            self._stream.peer,
            self.number,
        )
        self._allowed = self._allowed_to(self.peer, has_cluster_id=bool(hello.cluster_id))

    def _allowed_to(self, peer: Peer, *, has_cluster_id: bool) -> Mapping[str, Accept]:
        return self._server.permissions.of(peer.role, has_node_id=peer.node_id >= 0, has_cluster_id=has_cluster_id)

    def _accept(self, call: Call, late: bool) -> None:
        accept = self._allowed.get(call.method)
        if late:
            self._server.late_frames += 1
            call.fail(REQUEST_TIMED_OUT, f"{call.method} came after its deadline")
        elif self._server.closing:
            call.fail(BROKER_NOT_AVAILABLE, "shutting down")
        elif accept is not None:
            self._run(accept, call)
        elif not self._server.permissions.serves(call.method):
            call.fail(UNSUPPORTED_VERSION, f"no method {call.method[:64]!r} here")
        elif call.peer.cluster_id:
            self._deny(call, Denied(f"{_name_of(call.peer)} may not call {call.method}"))
        else:
            self._accept_without_cluster(call)

    def _run(self, accept: Accept, call: Call) -> None:
        try:
            finish = accept(call)
        except Denied as error:
            self._deny(call, error)
        except Exception as error:
            fail_with(call, error)
        else:
            if finish is not None:
                self._server.run(finish, call)

    def _accept_without_cluster(self, call: Call) -> None:
        """Accepts a call of a peer whose hello named no cluster. While a cluster is new, neither side knows its id.

        Once this process knows it, the peer must name it by another hello. So the connection ends, and the peer makes a new one.
        """
        peer = call.peer
        if self._server.cluster_id:
            raise NoClusterNamed(f"the hello of {_name_of(peer)} names no cluster, so it may not call {call.method}")
        accept = self._allowed_to(peer, has_cluster_id=True).get(call.method)
        if accept is None:
            self._deny(call, Denied(f"{_name_of(peer)} may not call {call.method}"))
        else:
            self._run(accept, call)

    def _deny(self, call: Call, error: Denied) -> None:
        self._server.denied.count(call, error.message)
        call.fail(error.code, error.message)

    def _cancel(self, call: Call) -> None:
        try:
            call.cancel()
        except Exception:
            log.exception("cancellation failed", extra={"fields": {"method": call.method}})

    # Answers

    def answer(
        self, call: Call, kind: Kind, body: bytes, payload: Sequence[Buffer], files: Sequence[FileSlice], fds: Sequence[int]
    ) -> None:
        if call.request_id not in self.pending:
            return
        stream = self._stream
        length = payload_size(payload) if payload else 0
        if not files and not fds:
            if self._link is not None:
                self._link.send(local_frame(kind, call.request_id, "", 0, None, body, payload))
            else:
                frame = pack_frame(kind, call.request_id, "", 0, None, body, length)
                stream.write(frame, *payload)
                if kind == Kind.ERROR:
                    self._unread_errors += len(frame)
        else:
            # All steps that can fail come before the first byte: a frame that is begun must be finished.
            own: list[int] = []
            try:
                own = stream.hold_files([fd for fd, _, _ in files])
                if fds:
                    stream.attach_descriptors(fds)
            except OSError as error:
                for fd in own:
                    stream.let_go(fd)
                self._fail_unread(call, error)
                return
            length += sum(file_length for _, _, file_length in files)
            stream.write(pack_frame(kind, call.request_id, "", 0, None, body, length, len(fds)), *payload)
            for fd, (_, position, file_length) in zip(own, files, strict=True):
                stream.write_file(fd, position, file_length, _let_go_when_sent(stream, fd))
        self._answered(call)

    def _answered(self, call: Call) -> None:
        del self.pending[call.request_id]
        self._outstanding -= call.cost
        self._server.outstanding -= call.cost
        if self._paused:
            self._balance()

    def answer_in_any_order(self, call: Call, body: bytes, files: Sequence[FileSlice]) -> None:
        if call.request_id not in self.pending:
            return
        try:
            answer = ColdAnswer(self._stream, files, lambda answer, error: self._read_ahead(call, body, answer, error))
            is_cached = answer.begin()
        except OSError as error:
            self._fail_unread(call, error)
            return
        if is_cached:
            self._send_files(call, body, answer.files)
        else:
            self._cold[call.request_id] = answer

    def _read_ahead(self, call: Call, body: bytes, answer: ColdAnswer, error: Exception | None) -> None:
        del self._cold[call.request_id]
        if error is None:
            self._send_files(call, body, answer.files)
            return
        answer.let_go()
        self._fail_unread(call, error)

    def _fail_unread(self, call: Call, error: Exception) -> None:
        """Fails a call whose files cannot be sent: a disk's error, or no descriptor was left to hold them."""
        log.warning("file not read", extra={"fields": {"method": call.method, "error": str(error)}})
        self.answer(call, Kind.ERROR, pack_body((KAFKA_STORAGE_ERROR, f"the file cannot be read: {error}")), (), (), ())

    def _send_files(self, call: Call, body: bytes, files: Sequence[FileSlice]) -> None:
        """Sends a body and file ranges, whose descriptors are our own and whose beginnings are in the page cache."""
        stream = self._stream
        window = 0 if stream.pending_bytes else WINDOW  # behind much else, it may not be there any more
        length = sum([file_length for _, _, file_length in files])
        stream.write(pack_frame(Kind.RESPONSE, call.request_id, "", 0, None, body, length))
        for fd, position, file_length in files:
            cached = min(file_length, window)
            stream.write_file(fd, position, file_length, _let_go_when_sent(stream, fd), cached=cached)
        self._answered(call)

    def _balance(self) -> None:
        """Stops reading while too much waits here: requests without answers, or answers that the peer does not read."""
        server, waiting, unread = self._server, self._outstanding, self._stream.pending_bytes
        errors = self._unread_errors = min(self._unread_errors, unread)
        if self._paused:
            room = 2 * unread <= server.max_outstanding and 2 * waiting <= server.share()
            if room and 2 * errors <= ERRORS_UNREAD_MAX:
                self._paused = False
                self._end_signs()
                if not self._more:
                    self._resume_reading()
        elif (
            max(waiting, unread) > server.max_outstanding
            or (waiting > SHARE_MIN and waiting > server.share())
            or errors > ERRORS_UNREAD_MAX
        ):
            self._paused = True
            self._stream.pause_reading()
            self._signs = self._loop.call_later(PAUSED_SIGN_S, self._sign_of_life)

    def _sign_of_life(self) -> None:
        if not self._stream.pending_bytes:
            self._stream.write(pack_frame(Kind.RESPONSE, NO_REQUEST, "", 0, None, pack_body([])))
        self._signs = self._loop.call_later(PAUSED_SIGN_S, self._sign_of_life)

    def _end_signs(self) -> None:
        if self._signs is not None:
            self._signs.cancel()
            self._signs = None

    def broken_invariant(self) -> str:
        """The rule that its budget does not obey now. "": none."""
        waiting = sum(call.cost for call in self.pending.values())
        return "" if self._outstanding == waiting else f"{self._outstanding} bytes count for calls of {waiting} bytes"

    # The end

    def refuse(self, reason: str, error: Exception) -> None:
        self._server.refused += 1
        peer = self._stream.peer
        key = peer.rpartition(":")[0], type(error).__name__
        self._server.closed_lines.write(key, logging.WARNING, "connection closed", peer=peer, reason=reason)
        self._stream.abort(error)

    def close(self) -> None:
        if self.peer is None:
            self._stream.abort(ConnectionAbortedError("the server closes before a hello"))  # nobody waits for answers
        else:
            self._stream.close()

    def supersede(self, error: Exception) -> None:
        """Ends this connection, since the same peer has made a newer one. No later frame of this one may have an effect."""
        log.info("connection superseded", extra={"fields": {"peer": self._stream.peer}})
        self._stream.abort(error)

    def sweep(self, now: float) -> None:
        """Closes a connection without progress: on half a frame, on unread answers, or without a hello."""
        progress = (self._received, self._stream.bytes_sent)
        stuck = self.peer is None or (self._reader.pending and not self._paused) or self._stream.pending_bytes
        if not stuck or (progress != self._progress and self.peer is not None):
            self._since = now
        elif now - self._since > (HELLO_TIMEOUT_S if self.peer is None else STALL_TIMEOUT_S):
            self.refuse("nothing moves", TimeoutError("nothing moves"))
        self._progress = progress


class NoClusterNamed(Exception):
    """A hello without the cluster's id, from a peer that asks for what needs it."""


def _name_of(peer: Peer) -> str:
    return f"{peer.role} {peer.node_id}" if peer.node_id >= 0 else f"{peer.role} without a node id"


def fail_with(call: Call, error: Exception) -> None:
    """Answers an exception of a handler. This is the only place that does so."""
    if isinstance(error, RpcError):
        call.fail(error.code, error.message)
    elif isinstance(error, ContractError):
        log.warning("bad request", extra={"fields": {"method": call.method, "peer": call.peer.address, "reason": str(error)}})
        call.fail(INVALID_REQUEST, str(error))
    else:
        log.error("handler failed", exc_info=error, extra={"fields": {"method": call.method}})
        call.fail(UNKNOWN_SERVER_ERROR, f"{call.method} failed: {type(error).__name__}")


def _let_go_when_sent(stream: Stream, fd: int) -> Callable[[bool], None]:
    return lambda _sent: stream.let_go(fd)
