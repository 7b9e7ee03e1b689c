"""Kafka's primitive types, read from and written to bytes. No I/O.

Every read is checked against the bytes that are there, and raises `ProtocolError`, after which the connection is worth nothing:
close it. Counts are checked before anything is allocated for them, since four bytes may claim two thousand million elements.
Views and strings are taken from the frame itself; `records` and `bytes` are views, never copies.

`flexible` selects the compact encodings of KIP-482 (lengths are unsigned varints of n + 1, 0 is null).
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Concatenate, Final, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

MAX_TAGGED_FIELDS: Final = 64
"""The most tagged fields in one section. Kafka has no bound, but a header with millions of them would be read before
authentication."""

MAX_ELEMENTS: Final = 1_000_000
"""The most array elements in one message, unless its reader has a lower bound. A hostile 100 MiB frame of one-byte elements would
become gigabytes of objects."""

STRING_BYTES_MAX: Final = 0x7FFF
"""The longest string. Kafka keeps to it also where the encoding has no bound: a compact string must fit into records that are not
compact."""

NO_UUID: Final = b"\0" * 16
"""Kafka's zero UUID: no id."""

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_UINT16 = struct.Struct(">H")
_UINT32 = struct.Struct(">I")
_FLOAT64 = struct.Struct(">d")


class ProtocolError(Exception):
    """The bytes are not what the protocol allows. The message says why, and is safe to log."""


def not_null(value: T | None) -> T:
    """The value of a field that may be null in other versions, but not in this one."""
    if value is None:
        raise ValueError("null in a field that this version cannot carry as null")
    return value


class Reader:
    """A reader of one frame. `position` is public, so that hot codecs may unpack by themselves. `elements_left`: how many more
    array elements it accepts, in all arrays together."""

    __slots__ = ("elements_left", "end", "position", "view")

    def __init__(self, view: memoryview, position: int = 0) -> None:
        self.view = view
        self.position = position
        self.end = len(view)
        self.elements_left = MAX_ELEMENTS

    @property
    def remaining(self) -> int:
        return self.end - self.position

    def expect_end(self) -> None:
        """Raises ProtocolError for trailing bytes: they mean that we and the sender disagree about the message."""
        if self.position != self.end:
            raise ProtocolError(f"{self.end - self.position} bytes after the end of the message")

    def int8(self) -> int:
        try:
            value: int = _INT8.unpack_from(self.view, self.position)[0]
        except struct.error:
            raise self._too_short(1) from None
        self.position += 1
        return value

    def int16(self) -> int:
        try:
            value: int = _INT16.unpack_from(self.view, self.position)[0]
        except struct.error:
            raise self._too_short(2) from None
        self.position += 2
        return value

    def int32(self) -> int:
        try:
            value: int = _INT32.unpack_from(self.view, self.position)[0]
        except struct.error:
            raise self._too_short(4) from None
        self.position += 4
        return value

    def int64(self) -> int:
        try:
            value: int = _INT64.unpack_from(self.view, self.position)[0]
        except struct.error:
            raise self._too_short(8) from None
        self.position += 8
        return value

    def uint16(self) -> int:
        try:
            value: int = _UINT16.unpack_from(self.view, self.position)[0]
        except struct.error:
            raise self._too_short(2) from None
        self.position += 2
        return value

    def uint32(self) -> int:
        try:
            value: int = _UINT32.unpack_from(self.view, self.position)[0]
        except struct.error:
            raise self._too_short(4) from None
        self.position += 4
        return value

    def float64(self) -> float:
        try:
            value: float = _FLOAT64.unpack_from(self.view, self.position)[0]
        except struct.error:
            raise self._too_short(8) from None
        self.position += 8
        return value

    def boolean(self) -> bool:
        # Kafka reads any byte but 0 as true.
        return self.int8() != 0

    def uuid(self) -> bytes:
        return bytes(self._take(16))

    def uvarint(self) -> int:
        """An unsigned varint of at most five bytes, the fifth at most 0x0f. A longer one is overlong, or a 64-bit number."""
        view, position, end = self.view, self.position, self.end
        if position < end and view[position] < 0x80:
            self.position = position + 1
            return view[position]
        value = shift = 0
        while position < end:
            byte = view[position]
            position += 1
            if byte < 0x80:
                if shift == 28 and byte > 0x0F:
                    raise ProtocolError("varint exceeds 32 bits")
                if byte == 0 and shift:
                    raise ProtocolError("overlong varint")
                self.position = position
                return value | byte << shift
            if shift == 28:
                raise ProtocolError("varint longer than 5 bytes")
            value |= (byte & 0x7F) << shift
            shift += 7
        raise ProtocolError("frame ends inside a varint")

    def string(self, flexible: bool) -> str:
        length = (self.uvarint() - 1) if flexible else self.int16()
        if length < 0:
            raise ProtocolError(f"string length {length} where null is not allowed")
        return self._text(length)

    def nullable_string(self, flexible: bool) -> str | None:
        length = (self.uvarint() - 1) if flexible else self.int16()
        return None if length == -1 else self._text(length)

    def data(self, flexible: bool) -> memoryview:
        view = self.nullable_data(flexible)
        if view is None:
            raise ProtocolError("null bytes where null is not allowed")
        return view

    def nullable_data(self, flexible: bool) -> memoryview | None:
        """A value of Kafka's types bytes and records: a view of the frame."""
        length = (self.uvarint() - 1) if flexible else self.int32()
        return None if length == -1 else self._take(length)

    def array_length(self, flexible: bool) -> int:
        count = self.nullable_array_length(flexible)
        if count < 0:
            raise ProtocolError("null array where null is not allowed")
        return count

    def nullable_array_length(self, flexible: bool) -> int:
        """The length of an array, -1 for null. Each element has a byte at least, so a count above the remaining bytes is
        false."""
        count = (self.uvarint() - 1) if flexible else self.int32()
        if count < -1 or count > self.end - self.position:
            raise ProtocolError(f"array of {count} elements with {self.end - self.position} bytes left")
        if count > 0:
            if count > self.elements_left:
                raise ProtocolError(f"{count} array elements where this message may have {self.elements_left} more")
            self.elements_left -= count
        return count

    def array(self, flexible: bool, read: Callable[Concatenate["Reader", P], T], *args: P.args, **kwargs: P.kwargs) -> list[T]:
        """An array, with `read(self, *args)` for each element: `array(flexible, Reader.int32)`, `array(flexible, Reader.string,
        flexible)`."""
        return [read(self, *args, **kwargs) for _ in range(self.array_length(flexible))]

    def nullable_array(
        self, flexible: bool, read: Callable[Concatenate["Reader", P], T], *args: P.args, **kwargs: P.kwargs
    ) -> list[T] | None:
        count = self.nullable_array_length(flexible)
        return None if count < 0 else [read(self, *args, **kwargs) for _ in range(count)]

    def nullable_struct(self, read: Callable[Concatenate["Reader", P], T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        return None if self.int8() < 0 else read(self, *args, **kwargs)

    def skip_tagged_fields(self) -> None:
        """Skips a section in which we know no tag. Newer clients may send tags that we do not know."""
        position = self.position
        if position < self.end and self.view[position] == 0:
            self.position = position + 1
            return
        for _ in range(self._tag_count()):
            self.uvarint()
            self._take(self.uvarint())

    def tagged_fields(self) -> Iterator[tuple[int, "Reader"]]:
        """The tagged fields, each as (tag, reader of its bytes). The caller skips a tag by not reading it."""
        for _ in range(self._tag_count()):
            tag = self.uvarint()
            field = Reader(self._take(self.uvarint()))
            field.elements_left = self.elements_left
            yield tag, field
            self.elements_left = field.elements_left

    def _tag_count(self) -> int:
        count = self.uvarint()
        if count > MAX_TAGGED_FIELDS:
            raise ProtocolError(f"{count} tagged fields, more than {MAX_TAGGED_FIELDS}")
        return count

    def _too_short(self, size: int) -> ProtocolError:
        return ProtocolError(f"{self.remaining} bytes left where {size} are needed")

    def _take(self, length: int) -> memoryview:
        position = self.position
        after = position + length
        if length < 0 or after > self.end:
            raise ProtocolError(f"length {length} with {self.end - position} bytes left")
        self.position = after
        return self.view[position:after]

    def _text(self, length: int) -> str:
        position = self.position
        after = position + length
        if not 0 <= length <= STRING_BYTES_MAX or after > self.end:
            raise ProtocolError(f"string of length {length} with {self.end - position} bytes left")
        self.position = after
        try:
            return str(self.view[position:after], "utf-8")
        except UnicodeDecodeError:
            raise ProtocolError("string is not UTF-8") from None


class Writer:
    """A writer of one message, which it collects in `buffer`."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = bytearray()

    def int8(self, value: int) -> None:
        self.buffer += _INT8.pack(value)

    def int16(self, value: int) -> None:
        self.buffer += _INT16.pack(value)

    def int32(self, value: int) -> None:
        self.buffer += _INT32.pack(value)

    def int64(self, value: int) -> None:
        self.buffer += _INT64.pack(value)

    def uint16(self, value: int) -> None:
        self.buffer += _UINT16.pack(value)

    def uint32(self, value: int) -> None:
        self.buffer += _UINT32.pack(value)

    def float64(self, value: float) -> None:
        self.buffer += _FLOAT64.pack(value)

    def boolean(self, value: bool) -> None:
        self.buffer.append(1 if value else 0)

    def uuid(self, value: bytes) -> None:
        if len(value) != 16:
            raise ValueError(f"a UUID has 16 bytes, not {len(value)}")
        self.buffer += value

    def uvarint(self, value: int) -> None:
        buffer = self.buffer
        while value > 0x7F:
            buffer.append(value & 0x7F | 0x80)
            value >>= 7
        buffer.append(value)

    def string(self, value: str, flexible: bool) -> None:
        encoded = value.encode()
        if flexible:
            self.uvarint(len(encoded) + 1)
        else:
            self.buffer += _INT16.pack(len(encoded))
        self.buffer += encoded

    def nullable_string(self, value: str | None, flexible: bool) -> None:
        if value is not None:
            self.string(value, flexible)
        elif flexible:
            self.buffer.append(0)
        else:
            self.buffer += b"\xff\xff"

    def error_message(self, value: str | None, flexible: bool) -> None:
        """Writes words for a client. They may quote what it sent, and are cut where a string has no more room."""
        if value is not None and len(value) > STRING_BYTES_MAX // 4:
            value = value.encode()[:STRING_BYTES_MAX].decode(errors="ignore")
        self.nullable_string(value, flexible)

    def data_length(self, length: int, flexible: bool) -> None:
        """Writes the length of bytes or records whose content is sent separately. -1: null."""
        if flexible:
            self.uvarint(length + 1)
        else:
            self.buffer += _INT32.pack(length)

    def data(self, value: bytes | bytearray | memoryview, flexible: bool) -> None:
        self.data_length(len(value), flexible)
        self.buffer += value

    def nullable_data(self, value: bytes | bytearray | memoryview | None, flexible: bool) -> None:
        if value is None:
            self.data_length(-1, flexible)
        else:
            self.data(value, flexible)

    def array_length(self, count: int, flexible: bool) -> None:
        """-1: null."""
        self.data_length(count, flexible)

    def array(
        self,
        items: Sequence[T],
        flexible: bool,
        write: Callable[Concatenate["Writer", T, P], None],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Writes an array, with `write(self, item, *args)` for each item."""
        self.data_length(len(items), flexible)
        for item in items:
            write(self, item, *args, **kwargs)

    def nullable_array(
        self,
        items: Sequence[T] | None,
        flexible: bool,
        write: Callable[Concatenate["Writer", T, P], None],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        if items is None:
            self.data_length(-1, flexible)
        else:
            self.array(items, flexible, write, *args, **kwargs)

    def nullable_struct(
        self, value: T | None, write: Callable[Concatenate["Writer", T, P], None], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        if value is None:
            self.int8(-1)
        else:
            self.int8(1)
            write(self, value, *args, **kwargs)

    def no_tagged_fields(self) -> None:
        self.buffer.append(0)

    def tagged_fields(self, fields: Sequence[tuple[int, "Writer"]]) -> None:
        """Writes tagged fields. The caller has them in ascending order of tags."""
        self.uvarint(len(fields))
        for tag, field in fields:
            self.uvarint(tag)
            self.uvarint(len(field.buffer))
            self.buffer += field.buffer
