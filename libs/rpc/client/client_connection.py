"""The connection of a client, from its hello to its end."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from libs.rpc.client.silence import LOOK_S, PING, Finding, Silence, looks_in
from libs.rpc.messages.envelope import (
    NO_REQUEST,
    Frame,
    Hello,
    Kind,
    local_frame,
    pack_body,
    pack_frame,
    pack_hello,
    read_hello,
    unpack_frame,
)
from libs.rpc.messages.errors import EnvelopeError
from libs.rpc.transport.frame_link import LINKED_BYTES
from libs.rpc.transport.transport import Buffer, Stream
from libs.wire.frames import FrameError, FrameReader

MAX_UNCLAIMED = 4
"""The most messages with descriptors that no frame has claimed. An honest server has two: one receive may bring the end of a
frame and the beginning of the next."""
PING_TIMEOUT_MS = 60_000
"""The deadline that a ping tells the server. The client itself waits for no answer to it: anything received will do."""


class ClientConnectionOwner(Protocol):
    def awaits_answers(self) -> bool: ...

    def on_hello(self, connection: "ClientConnection", hello: Hello) -> None: ...

    def on_response(self, connection: "ClientConnection", frame: Frame, descriptors: tuple[int, ...]) -> None: ...

    def on_silent(self, connection: "ClientConnection") -> None: ...

    def on_disconnected(self, connection: "ClientConnection", reason: Exception | None) -> None: ...


class ClientConnection:
    """One connection of a client. A frame's descriptors are one message. Messages arrive in the order of their frames, and never
    later than the frame that claims them. Those that no frame claims are closed."""

    def __init__(self, owner: ClientConnectionOwner, stream: Stream, hello: Hello, max_frame: int, silence_s: float) -> None:
        self._owner = owner
        self.stream = stream
        self._reader = FrameReader(max_frame)
        self._descriptors: deque[list[int] | None] = deque()  # by message; None: this process had no room for them
        self.ready = False
        self._loop = asyncio.get_running_loop()
        self._silence_s = silence_s
        self._silence = Silence(looks_in(silence_s))
        self._look_timer: asyncio.TimerHandle | None = None
        self.watched = False
        self.since = self._loop.time()
        self._link = stream.link
        if self._link is not None:
            self._link.on_frames = self._frames_linked
        first = pack_hello(hello, int(self.since * 1000))
        self._written = len(first)
        stream.write(first)

    def send(
        self,
        kind: Kind,
        request_id: int,
        method: str,
        deadline_ms: int,
        trace: bytes | None,
        body: bytes,
        payload: Sequence[Buffer],
        payload_length: int,
        sent_at_ms: int,
    ) -> int:
        """Sends a frame. Returns its place in the outgoing bytes, or its negative number on the link, for `has_sent`."""
        if (link := self._link) is not None:
            return -link.send(local_frame(kind, request_id, method, deadline_ms, trace, body, payload, sent_at_ms))
        frame = pack_frame(kind, request_id, method, deadline_ms, trace, body, payload_length, 0, sent_at_ms)
        start = self._written
        self._written = start + len(frame) + payload_length
        self.stream.write(frame, *payload)
        return start

    def has_sent(self, start: int) -> bool:
        """Whether any byte of the frame that began at `start` left this process.

        On a link: whether the other end has taken the frame, or may do so yet.
        """
        if start < 0:
            assert self._link is not None
            return self._link.may_have_taken(-start)
        return start < self.stream.bytes_sent

    @property
    def unread_bytes(self) -> int:
        """The bytes of frames that the server has not read, as far as this process knows: the rest is in the kernel."""
        return self.stream.pending_bytes if self._link is None else self._link.untaken_bytes

    def watch(self) -> None:
        """Looks for silence from now on, until the owner awaits no answers. A silent connection is ended."""
        self.watched = True
        self._silence.begin()
        self._look_timer = self._loop.call_later(LOOK_S, self._look)

    def rest(self) -> None:
        """Ends the looks now if the owner awaits no answers. The next look would do so, and wake up an idle process for it."""
        if self.watched and self._look_timer is not None and not self._owner.awaits_answers():
            self.watched = False
            self._look_timer.cancel()

    def _look(self) -> None:
        self.watched = self._owner.awaits_answers() and not self.stream.closing
        if not self.watched:
            return
        match self._silence.look(self.stream.bytes_sent, self.stream.pending_bytes):
            case Finding.SILENT:
                self._owner.on_silent(self)
                self.stream.abort(TimeoutError(f"silent for {self._silence_s:.1f} s"))
                return
            case Finding.PING:
                self.send(Kind.REQUEST, NO_REQUEST, PING, PING_TIMEOUT_MS, None, pack_body([]), (), 0, 0)
        self._look_timer = self._loop.call_later(LOOK_S, self._look)

    def get_buffer(self) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.advance(nbytes)
        self._silence.heard = True
        try:
            for body in self._reader.frames():
                self._frame(unpack_frame(body))
                if self.stream.closing:
                    break
        except (FrameError, EnvelopeError) as error:
            self.ready = False
            self.stream.abort(error)

    def _frame(self, frame: Frame) -> None:
        if self.ready and (frame.kind == Kind.RESPONSE or frame.kind == Kind.ERROR):
            self._owner.on_response(self, frame, self._claim(frame.descriptors) if frame.descriptors else ())
        elif self.ready:
            raise EnvelopeError(f"frame of kind {frame.kind} from a server")
        else:
            self.ready = True
            self._owner.on_hello(self, read_hello(frame))

    def _frames_linked(self) -> None:
        """Takes what came by the link, one read's bytes at most. The hello came by the socket, and before."""
        assert self._link is not None
        link = self._link
        self._silence.heard = True
        room = LINKED_BYTES
        while link.frames and room > 0 and not self.stream.closing:
            frame, size = link.take()
            self._frame(frame)
            room -= size
        if link.frames and not self.stream.closing:
            link.announce()

    def _claim(self, count: int) -> tuple[int, ...]:
        """The descriptors of a frame; none, if this process had no room for them."""
        fds = self._descriptors.popleft() if self._descriptors else []
        if fds is None:
            return ()
        if count != len(fds):
            self._close(fds)
            raise EnvelopeError(f"frame claims {count} descriptors, {len(fds)} came")
        return tuple(fds)

    def descriptors_received(self, fds: list[int] | None) -> None:
        self._descriptors.append(fds)
        if len(self._descriptors) > MAX_UNCLAIMED:
            self.stream.abort(EnvelopeError("descriptors that no frame claims"))

    def write_ready(self) -> None:
        pass

    def connection_lost(self, reason: Exception | None) -> None:
        self.ready = False
        if self._look_timer is not None:
            self._look_timer.cancel()
        if self._link is not None:
            # The owner sends again elsewhere what the server has not taken. It must not be taken after that.
            self._link.withdraw()
            self._link.end()
        for fds in self._descriptors:
            self._close(fds or ())
        self._descriptors.clear()
        self._owner.on_disconnected(self, reason)

    def _close(self, fds: Sequence[int]) -> None:
        for fd in fds:
            self.stream.let_go(fd)


OnReply = Callable[["Response | Exception"], None]


class Response:
    """An answer. The receiver closes `descriptors`: there are none if this process had no room for them. `payload` is a view of
    the receive buffer: drop it soon."""

    __slots__ = ("body", "descriptors", "payload")

    def __init__(self, body: list[object], payload: memoryview, descriptors: tuple[int, ...]) -> None:
        self.body = body
        self.payload = payload
        self.descriptors = descriptors
