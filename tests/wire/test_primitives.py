"""Kafka's primitive types, and what hostile bytes get (rows 6, 7 and 8 of the list of bad inputs)."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.wire.primitives import MAX_ELEMENTS, MAX_TAGGED_FIELDS, ProtocolError, Reader, Writer


def reader(*parts: bytes) -> Reader:
    return Reader(memoryview(b"".join(parts)))


@given(st.integers(0, 2**32 - 1))
def test_a_varint_comes_back_as_it_was(value: int) -> None:
    writer = Writer()
    writer.uvarint(value)
    read = reader(writer.buffer)
    assert read.uvarint() == value
    read.expect_end()


@given(st.none() | st.text(), st.booleans())
def test_a_string_comes_back_as_it_was(value: str | None, flexible: bool) -> None:
    writer = Writer()
    writer.nullable_string(value, flexible)
    read = reader(writer.buffer)
    assert read.nullable_string(flexible) == value
    read.expect_end()


@pytest.mark.parametrize("method", ["int8", "int16", "int32", "int64", "uint16", "uint32", "float64"])
def test_a_number_comes_back_as_it_was_and_needs_all_its_bytes(method: str) -> None:
    writer = Writer()
    getattr(writer, method)(3)
    assert getattr(reader(writer.buffer), method)() == 3
    short = reader(writer.buffer[:-1])
    with pytest.raises(ProtocolError, match="needed"):
        getattr(short, method)()


@pytest.mark.parametrize(
    "overlong",
    [b"\x80\x80\x80\x80\x80\x00", b"\xff\xff\xff\xff\x7f", b"\xff\xff\xff\xff\x10", b"\x80\x00", b"\x81\x80\x00", b"\x80" * 9],
)
def test_an_overlong_varint_is_refused(overlong: bytes) -> None:
    with pytest.raises(ProtocolError, match="varint"):
        reader(overlong).uvarint()


def test_a_varint_that_the_frame_cuts_is_refused() -> None:
    with pytest.raises(ProtocolError, match="inside a varint"):
        reader(b"\x80").uvarint()
    with pytest.raises(ProtocolError, match="inside a varint"):
        reader(b"").uvarint()


@pytest.mark.parametrize(("length", "allowed"), [(0x7FFF, True), (0x8000, False), (1 << 20, False)])
def test_a_compact_string_is_no_longer_than_any_other_may_be(length: int, allowed: bool) -> None:
    writer = Writer()
    writer.string("x" * length, True)
    for read in (Reader.string, Reader.nullable_string):
        if allowed:
            assert read(reader(bytes(writer.buffer)), True) == "x" * length
        else:
            with pytest.raises(ProtocolError, match=f"string of length {length}"):
                read(reader(bytes(writer.buffer)), True)


@pytest.mark.parametrize("length", [-2, -32768, 4])
def test_a_string_of_an_impossible_length_is_refused(length: int) -> None:
    for read in (Reader.string, Reader.nullable_string):
        with pytest.raises(ProtocolError, match="length"):
            read(reader(struct.pack(">h", length), b"abc"), False)


@pytest.mark.parametrize("length", [-2, -(2**31), 4])
def test_bytes_of_an_impossible_length_are_refused(length: int) -> None:
    with pytest.raises(ProtocolError, match="length"):
        reader(struct.pack(">i", length), b"abc").nullable_data(False)


def test_null_is_refused_where_it_is_not_allowed() -> None:
    for flexible, null in ((False, b"\xff\xff\xff\xff"), (True, b"\0")):
        with pytest.raises(ProtocolError, match="null"):
            reader(null).data(flexible)
        with pytest.raises(ProtocolError, match="null"):
            reader(null).array_length(flexible)
        with pytest.raises(ProtocolError, match="null"):
            reader(null[:2]).string(flexible)


@pytest.mark.parametrize("bad", [b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80"])
def test_a_string_that_is_not_utf8_is_refused(bad: bytes) -> None:
    with pytest.raises(ProtocolError, match="UTF-8"):
        reader(bytes([len(bad) + 1]), bad).string(True)


@pytest.mark.parametrize("count", [2**31 - 1, 9, -2, -(2**31)])
def test_an_array_count_larger_than_the_frame_is_refused_before_it_is_believed(count: int) -> None:
    with pytest.raises(ProtocolError, match="array of"):
        reader(struct.pack(">i", count), b"12345678").array(False, Reader.int8)


def test_a_compact_array_count_larger_than_the_frame_is_refused() -> None:
    with pytest.raises(ProtocolError, match="array of"):
        reader(b"\xff\xff\xff\xff\x0f", b"1234").array(True, Reader.int8)


def test_nested_arrays_cannot_add_up_to_more_elements_than_one_message_may_have() -> None:
    half = MAX_ELEMENTS // 2 + 1
    read = reader(struct.pack(">i", half), b"\0" * half, struct.pack(">i", half), b"\0" * half)
    read.array(False, Reader.int8)
    with pytest.raises(ProtocolError, match="array elements"):
        read.array(False, Reader.int8)


def test_millions_of_tagged_fields_are_refused_at_once() -> None:
    writer = Writer()
    writer.uvarint(2_000_000)
    with pytest.raises(ProtocolError, match="tagged fields"):
        reader(writer.buffer, b"\0" * 100).skip_tagged_fields()


def test_as_many_tagged_fields_as_allowed_are_skipped() -> None:
    fields = [(tag, Writer()) for tag in range(MAX_TAGGED_FIELDS)]
    writer = Writer()
    writer.tagged_fields(fields)
    read = reader(writer.buffer)
    read.skip_tagged_fields()
    read.expect_end()
    writer = Writer()
    writer.tagged_fields([*fields, (64, Writer())])
    with pytest.raises(ProtocolError, match="tagged fields"):
        reader(writer.buffer).skip_tagged_fields()


def test_a_tagged_field_longer_than_the_frame_is_refused() -> None:
    with pytest.raises(ProtocolError, match="length"):
        reader(b"\x01\x00\x05ab").skip_tagged_fields()


def test_trailing_bytes_are_refused() -> None:
    read = reader(b"\0\0")
    read.int8()
    with pytest.raises(ProtocolError, match="1 bytes after"):
        read.expect_end()


def test_bytes_are_views_of_the_frame_and_no_copies() -> None:
    frame = bytearray(b"\0\0\0\3abc")
    view = Reader(memoryview(frame)).data(False)
    frame[4:] = b"xyz"
    assert bytes(view) == b"xyz"


@given(st.binary(max_size=64), st.booleans())
def test_garbage_raises_nothing_but_protocol_errors(garbage: bytes, flexible: bool) -> None:
    for read in (Reader.string, Reader.nullable_string, Reader.data, Reader.nullable_data):
        try:
            read(reader(garbage), flexible)
        except ProtocolError:
            pass
    try:
        reader(garbage).array(flexible, Reader.string, flexible)
        reader(garbage).skip_tagged_fields()
    except ProtocolError:
        pass
