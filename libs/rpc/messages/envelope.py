"""The content of an RPC frame. Pure.

    u32 length | u16 header length | header | body | payload

Header and body are msgpack arrays; the payload is opaque bytes that msgpack never sees. The header is
`[kind, request id, method, deadline in ms from now, trace context, payload length, descriptors, sent at ms]`. Readers
ignore further fields and give missing ones their default, so that neighbouring versions understand each other.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import astuple, fields
from enum import IntEnum
from typing import Any, NamedTuple

import msgpack  # type: ignore[import-untyped]

from libs.lean_dataclass import dataclass
from libs.rpc.messages.errors import EnvelopeError
from libs.rpc.messages.schema import pack
from libs.rpc.transport.transport import Buffer

MAX_HEADER = 4096
MAX_NESTING = 32
MAX_ARRAY = 65_536
PROTOCOL = 1
NO_REQUEST = 0
"""The id of a ping and of a sign of life. No other request has it, so that clients drop the answers."""

_LENGTHS = struct.Struct(">IH")
_HEADER_LENGTH = struct.Struct(">H")
# Every byte that can open a msgpack array: fixarray, array 16, array 32. The same bytes within other values count as well, so
# counting them gives an upper bound of the nesting at the speed of C.
_NO_ARRAY_OPENERS = bytes(set(range(256)) - {*range(0x90, 0xA0), 0xDC, 0xDD})


class Kind(IntEnum):
    HELLO = 0
    REQUEST = 1
    RESPONSE = 2
    ERROR = 3
    ONEWAY = 4
    CANCEL = 5


@dataclass(frozen=True, slots=True)
class Hello:
    """The identity of a process: the first frame in both directions.

    `incarnation` differs from start to start of one node, and rises. `node_id` -1: a caller without an id, such as a tool.
    """

    role: str
    node_id: int
    incarnation: int
    version: str
    feature_level: int
    cluster_id: str = ""


Introduction = Hello | Callable[[], Hello]
"""A hello, or a function that makes one for each connection: the cluster's id is known only once the metadata have been read."""


def hello_of(introduction: Introduction) -> Hello:
    return introduction() if callable(introduction) else introduction


class Frame(NamedTuple):
    kind: int
    request_id: int
    method: str
    deadline_ms: int
    """The milliseconds that were left when the frame was sent; 0 in answers."""
    trace: bytes | None
    descriptors: int
    """The number of passed descriptors that belong to this frame."""
    sent_at_ms: int
    """The time on the sender's monotonic clock, which means nothing alone; see `frame_age`. 0: it is not given."""
    body: list[object]
    payload: memoryview


EMPTY = memoryview(b"")

_packb = msgpack.Packer().pack


def pack_body(body: object) -> bytes:
    packed: bytes = _packb(body)
    return packed


def pack_any(body: object) -> bytes:
    if type(body) is bytes:
        return body
    if type(body) is list or type(body) is tuple:
        return pack_body(body)
    return pack_body(pack(body))


def pack_frame(
    kind: int,
    request_id: int,
    method: str,
    deadline_ms: int,
    trace: bytes | None,
    body: bytes,
    payload_length: int = 0,
    descriptors: int = 0,
    sent_at_ms: int = 0,
) -> bytes:
    """The bytes of a frame without its payload, which follows on the wire as it is. `body` is packed already."""
    header: bytes = _packb((kind, request_id, method, deadline_ms, trace, payload_length, descriptors, sent_at_ms))
    size = len(header)
    lengths = _LENGTHS.pack(2 + size + len(body) + payload_length, size)
    return lengths + header + body


def local_frame(
    kind: int,
    request_id: int,
    method: str,
    deadline_ms: int,
    trace: bytes | None,
    body: bytes,
    payload: Sequence[Buffer],
    sent_at_ms: int = 0,
) -> tuple[Frame, int]:
    """The frame that `unpack_frame` would make of these at the other end, and about its size, for an end in the same process.

    The payload is copied: its owner may use its memory again once the call ends, and the other end may write into its own.
    """
    view = memoryview(bytearray().join(payload)) if payload else EMPTY
    frame = Frame(kind, request_id, method, deadline_ms, trace, 0, sent_at_ms, _unpack(memoryview(body)) if body else [], view)
    return frame, len(body) + len(view)


def payload_size(payload: Sequence[Buffer]) -> int:
    return len(payload[0]) if len(payload) == 1 else sum(map(len, payload))


def unpack_frame(frame: memoryview) -> Frame:
    """Reads a frame. Raises EnvelopeError. The payload is a view of `frame`."""
    try:
        (size,) = _HEADER_LENGTH.unpack_from(frame)
        start = 2 + size
        if size > MAX_HEADER or start > len(frame):
            raise EnvelopeError(f"header of {size} bytes in a frame of {len(frame)}")
        header = _unpack(frame[2:start])
        kind, request_id, method, deadline_ms, trace, payload_length = header[:6]
        body_end = len(frame) - payload_length  # type: ignore[operator]
        if (
            type(kind) is not int
            or type(request_id) is not int
            or type(method) is not str
            or type(deadline_ms) is not int
            or payload_length < 0  # type: ignore[operator]
            or body_end < start
            or not (trace is None or type(trace) is bytes)
        ):
            raise EnvelopeError("header fields of the wrong type or size")
        descriptors = header[6] if len(header) > 6 else 0
        sent_at_ms = header[7] if len(header) > 7 else 0
        if type(descriptors) is not int or type(sent_at_ms) is not int or not 0 <= descriptors <= 16:
            raise EnvelopeError("header fields of the wrong type or size")
        packed = frame[start:body_end]
        body = _unpack(packed) if body_end > start else []
        if len(packed) > MAX_NESTING and len(bytes(packed).translate(None, _NO_ARRAY_OPENERS)) > MAX_NESTING:
            _check_nesting(body)
    except EnvelopeError:
        raise
    except Exception as error:
        # struct.error, ValueError with its many kinds in msgpack, TypeError of a comparison
        raise EnvelopeError(f"not an RPC frame: {error!r}") from None
    # Even an empty view would hold the receive buffer for as long as a parked call waits.
    payload = frame[body_end:] if payload_length else EMPTY
    return Frame(kind, request_id, method, deadline_ms, trace, descriptors, sent_at_ms, body, payload)


def _refuse_extension(code: int, data: bytes) -> Any:
    raise EnvelopeError(f"msgpack extension type {code}")


def _new_unpacker() -> msgpack.Unpacker:
    return msgpack.Unpacker(ext_hook=_refuse_extension, max_ext_len=0, max_map_len=0, max_array_len=MAX_ARRAY)


class _Arrays:
    """A decoder of one msgpack array at a time. A reused unpacker is three times as quick as `unpackb` with the same limits."""

    def __init__(self) -> None:
        self._unpacker = _new_unpacker()
        self._fed = 0

    def unpack(self, packed: memoryview) -> list[object]:
        unpacker = self._unpacker
        self._fed += len(packed)
        try:
            unpacker.feed(packed)
            value = unpacker.unpack()
            if unpacker.tell() != self._fed:
                raise EnvelopeError("bytes after the msgpack array")
        except BaseException:
            # A value that was read halfway must not become part of the next frame.
            self._unpacker = _new_unpacker()
            self._fed = 0
            raise
        if type(value) is not list:
            raise EnvelopeError("not a msgpack array")
        return value


_unpack = _Arrays().unpack


def _check_nesting(value: list[object]) -> None:
    level: list[list[object]] = [value]
    for _ in range(MAX_NESTING):
        level = [item for items in level for item in items if type(item) is list]
        if not level:
            return
    raise EnvelopeError(f"nested deeper than {MAX_NESTING}")


_HELLO_TYPES: tuple[type, ...] = (str, int, int, str, int, str)
_HELLO_REQUIRED = 5


def pack_hello(hello: Hello, sent_at_ms: int = 0) -> bytes:
    return pack_frame(Kind.HELLO, PROTOCOL, "", 0, None, pack_body(astuple(hello)), sent_at_ms=sent_at_ms)


def read_hello(frame: Frame) -> Hello:
    """Raises EnvelopeError when the frame is anything else than a hello."""
    if frame.kind != Kind.HELLO:
        raise EnvelopeError(f"frame of kind {frame.kind} before the hello")
    values = frame.body[: len(fields(Hello))]
    if len(values) < _HELLO_REQUIRED or any(type(v) is not t for v, t in zip(values, _HELLO_TYPES, strict=False)):
        raise EnvelopeError("hello fields of the wrong type")
    return Hello(*values)  # type: ignore[arg-type]
