"""A client's one connection, from its hello to its end."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from libs.rpc.descriptors import close_all
from libs.rpc.envelope import Frame, Hello, Kind, pack_hello, read_hello, unpack_frame
from libs.rpc.errors import EnvelopeError
from libs.rpc.transport import Buffer, Stream
from libs.wire.frames import FrameError, FrameReader

MAX_UNCLAIMED = 64


class LinkOwner(Protocol):
    def greeted(self, link: "Link", hello: Hello) -> None: ...

    def answered(self, link: "Link", frame: Frame, descriptors: tuple[int, ...]) -> None: ...

    def lost(self, link: "Link", reason: Exception | None) -> None: ...


class Link:
    """Descriptors arrive in order and never later than the frame that claims them; what nobody claims is closed."""

    def __init__(self, owner: LinkOwner, stream: Stream, hello: Hello, max_frame: int) -> None:
        self._owner = owner
        self.stream = stream
        self._reader = FrameReader(max_frame)
        self._descriptors: list[int] = []
        self.ready = False
        self.since = asyncio.get_running_loop().time()
        first = pack_hello(hello, int(self.since * 1000))
        self._written = len(first)
        stream.write(first)

    def send(self, frame: bytes, payload: Sequence[Buffer], payload_length: int) -> int:
        """Returns the frame's place in the outgoing bytes, for `reached`."""
        start = self._written
        self._written = start + len(frame) + payload_length
        self.stream.write(frame, *payload)
        return start

    def left(self, start: int) -> bool:
        """Whether any byte of the frame that began at `start` left this process."""
        return start < self.stream.bytes_sent

    def get_buffer(self) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.advance(nbytes)
        try:
            for body in self._reader.frames():
                frame = unpack_frame(body)
                if self.ready and (frame.kind == Kind.RESPONSE or frame.kind == Kind.ERROR):
                    self._owner.answered(self, frame, self._claim(frame.descriptors) if frame.descriptors else ())
                elif self.ready:
                    raise EnvelopeError(f"frame of kind {frame.kind} from a server")
                else:
                    self.ready = True
                    self._owner.greeted(self, read_hello(frame))
                if self.stream.closing:
                    break
        except (FrameError, EnvelopeError) as error:
            self.ready = False
            self.stream.abort(error)

    def _claim(self, count: int) -> tuple[int, ...]:
        if count > len(self._descriptors):
            raise EnvelopeError(f"frame claims {count} descriptors, {len(self._descriptors)} came")
        claimed = tuple(self._descriptors[:count])
        del self._descriptors[:count]
        return claimed

    def descriptors_received(self, fds: list[int]) -> None:
        self._descriptors += fds
        if len(self._descriptors) > MAX_UNCLAIMED:
            self.stream.abort(EnvelopeError("descriptors that no frame claims"))

    def write_ready(self) -> None:
        pass

    def connection_lost(self, reason: Exception | None) -> None:
        self.ready = False
        close_all(self._descriptors)
        self._descriptors = []
        self._owner.lost(self, reason)


OnReply = Callable[["Response | Exception"], None]


class Response:
    """An answer. `descriptors` are the receiver's to close; `payload` is a view of the receive buffer (drop it soon)."""

    __slots__ = ("body", "descriptors", "payload")

    def __init__(self, body: list[object], payload: memoryview, descriptors: tuple[int, ...]) -> None:
        self.body = body
        self.payload = payload
        self.descriptors = descriptors
