"""The content of a frame, and frames that are refused before they can do harm."""

import contextlib

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.rpc.messages.envelope import Hello, Kind, pack_body, pack_frame, pack_hello, read_hello, unpack_frame
from libs.rpc.messages.errors import EnvelopeError

HELLO = Hello("storage", 3, 17, "0.1", 1, "cluster-a")


def view(frame: bytes) -> memoryview:
    return memoryview(bytearray(frame))[4:]


def enclosed(header: object, rest: bytes = b"") -> memoryview:
    packed = msgpack.packb(header)
    return memoryview(bytearray(len(packed).to_bytes(2, "big") + packed + rest))


def test_a_frame_comes_back_as_it_was_packed() -> None:
    packed = pack_frame(Kind.REQUEST, 7, "storage.append", 1500, b"trace", pack_body([1, "two", b"3"]), 4, 2, 99)
    assert int.from_bytes(packed[:4], "big") == len(packed)  # 4 of payload come instead of the length field
    frame = unpack_frame(view(packed + b"data"))
    assert frame[:8] == (Kind.REQUEST, 7, "storage.append", 1500, b"trace", 2, 99, [1, "two", b"3"])
    assert bytes(frame.payload) == b"data"
    assert not frame.payload.readonly


def test_a_hello_names_its_sender() -> None:
    assert read_hello(unpack_frame(view(pack_hello(HELLO)))) == HELLO


def test_fields_that_a_newer_version_adds_are_ignored() -> None:
    header = [Kind.HELLO, 1, "", 0, None, 0, 0, 0, "new", [["and", "nested"]]]
    body = msgpack.packb(["gateway", 1, 2, "9.9", 4, "c", "new"])
    assert read_hello(unpack_frame(enclosed(header, body))) == Hello("gateway", 1, 2, "9.9", 4, "c")


def test_fields_that_an_older_version_lacks_have_defaults() -> None:
    frame = unpack_frame(enclosed([Kind.HELLO, 1, "", 0, None, 0], msgpack.packb(["gateway", 1, 2, "0", 1])))
    assert (frame.descriptors, frame.sent_at_ms) == (0, 0)
    assert read_hello(frame).cluster_id == ""


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "body",
    [
        msgpack.packb([msgpack.ExtType(5, b"x")]),
        msgpack.packb([msgpack.ExtType(5, b"")]),
        msgpack.packb([msgpack.Timestamp(1, 1)]),
        msgpack.packb(nested(33)),
        b"\x91" * 1000 + b"\x01",
        b"\x91" * 100_000,
        msgpack.packb([{"a": 1}]),
        msgpack.packb("no array"),
        msgpack.packb([1]) + b"\x01",
        msgpack.packb([1, 2])[:-1],
        b"\xdd\xff\xff\xff\xff",
        b"\x91\xdb\xff\xff\xff\xff",
        b"\x91\xa1\xff",
        b"\xc1",
    ],
    ids=lambda body: body[:6].hex(),
)
def test_a_hostile_body_is_refused_and_the_next_frame_is_read_nevertheless(body: bytes) -> None:
    with pytest.raises(EnvelopeError):
        unpack_frame(view(pack_frame(Kind.REQUEST, 1, "m", 0, None, body)))
    assert unpack_frame(view(pack_frame(Kind.REQUEST, 1, "m", 0, None, pack_body([5])))).body == [5]


def test_nesting_up_to_the_limit_is_read() -> None:
    assert unpack_frame(view(pack_frame(Kind.REQUEST, 1, "m", 0, None, msgpack.packb(nested(32))))).body == nested(32)


def test_bytes_that_look_like_deep_nesting_are_only_bytes() -> None:
    assert unpack_frame(view(pack_frame(Kind.REQUEST, 1, "m", 0, None, pack_body([b"\x91" * 500])))).body == [b"\x91" * 500]


@pytest.mark.parametrize(
    "header",
    [
        [Kind.REQUEST, 1, "m", 0, None],
        [Kind.REQUEST, 1, "m", 0, None, 5],
        [Kind.REQUEST, 1, "m", 0, None, -1],
        [Kind.REQUEST, 1, "m", 0, None, "5"],
        [Kind.REQUEST, "1", "m", 0, None, 0],
        [Kind.REQUEST, 1, b"m", 0, None, 0],
        [Kind.REQUEST, 1, "m", 0.5, None, 0],
        [Kind.REQUEST, 1, "m", 0, [], 0],
        [Kind.REQUEST, 1, "m", 0, None, 0, 17],
        [Kind.REQUEST, 1, "m", 0, None, 0, 0, "now"],
        {"kind": 1},
        7,
    ],
    ids=repr,
)
def test_a_header_of_the_wrong_shape_is_refused(header: object) -> None:
    with pytest.raises(EnvelopeError):
        unpack_frame(enclosed(header))


def test_a_header_longer_than_the_frame_or_the_limit_is_refused() -> None:
    for hostile in (b"", b"\0", b"\0\x09\x90", enclosed([1] * 5000)):
        with pytest.raises(EnvelopeError):
            unpack_frame(memoryview(hostile))


def test_a_hello_of_the_wrong_shape_is_refused() -> None:
    for body in ([], ["gateway"], ["gateway", "1", 2, "0", 1], ["gateway", 1, 2, "0", True], ["g", 1, 2, "0", 1, None]):
        with pytest.raises(EnvelopeError):
            read_hello(unpack_frame(view(pack_frame(Kind.HELLO, 1, "", 0, None, pack_body(body)))))


@given(st.binary(max_size=400))
def test_random_bytes_are_read_or_refused_never_worse(data: bytes) -> None:
    with contextlib.suppress(EnvelopeError):
        unpack_frame(memoryview(data))


@given(st.data())
def test_a_damaged_frame_is_read_or_refused_never_worse(data: st.DataObject) -> None:
    frame = bytearray(pack_frame(Kind.REQUEST, 7, "storage.append", 9, None, pack_body([1, [b"x" * 16, 3]]), 0)[4:])
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(EnvelopeError):
        unpack_frame(memoryview(frame))


def test_a_frame_without_payload_does_not_pin_the_receive_buffer() -> None:
    chunk = bytearray(pack_frame(Kind.REQUEST, 1, "m", 0, None, pack_body([1])))
    frame = unpack_frame(memoryview(chunk)[4:])
    chunk.append(0)  # BufferError if anything still views it
    assert bytes(frame.payload) == b""
