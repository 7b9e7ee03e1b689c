"""The numbers of records: varints in zig-zag, of ten bytes at most, or of five where 32 bits are meant.

Loops over all records of a batch read numbers of one and two bytes in place, and call `longer` for others. Nearly all are so
short, and a call costs 60 to 80 ns of the 500 to 700 ns of a record: with calls for all numbers of two bytes,
`key_values.latest_values` takes 30 to 85 % longer.
"""

from typing import Final

Buffer = bytes | bytearray | memoryview

SHIFT_MAX: Final = 63
"""Where the bits of a tenth byte stand."""
SHIFT_MAX_OF_32_BITS: Final = 28


class EndlessNumber(IndexError):
    """A number of more bytes than it may have."""


def longer(data: Buffer, position: int, first: int, shift_max: int = SHIFT_MAX) -> tuple[int, int]:
    """A number of several bytes, of which `first` was read before `position`. The zig-zag is not undone. With it, the position
    after the number. Raises IndexError at the end, and EndlessNumber."""
    raw = first & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, position
        shift += 7
        if shift > shift_max:
            raise EndlessNumber("a number that does not end")


def varint(data: Buffer, position: int) -> tuple[int, int]:
    """A number, and the position after it. Raises IndexError at the end, and EndlessNumber."""
    raw = data[position]
    position += 1
    if raw > 0x7F:
        raw, position = longer(data, position, raw)
    return (raw >> 1) ^ -(raw & 1), position


def put_varint(written: bytearray, value: int) -> None:
    """Appends a number of 64 bits."""
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        written.append(raw & 0x7F | 0x80)
        raw >>= 7
    written.append(raw)


def encoded(value: int) -> bytes:
    """A number of 64 bits by itself."""
    raw = (value << 1) ^ (value >> 63)
    if raw < 0x80:
        return bytes((raw,))
    written = bytearray()
    put_varint(written, value)
    return bytes(written)
