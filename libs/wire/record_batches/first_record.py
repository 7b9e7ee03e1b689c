"""A header of the first record, found without a look at any other record. No decompression, and no search over the bytes.

The cost does not depend on sizes, which clients choose: key, value and other headers are stepped over by their lengths.
"""

from typing import Final, NamedTuple

from libs.wire.record_batches.varints import Buffer, varint

HEADERS_MAX: Final = 16
"""The most headers that are looked at: a client may send a million."""


class WantedHeader(NamedTuple):
    """A header that somebody asks the first record for."""

    name: bytes
    bytes_max: int
    """The longest value that is of use."""


def wanted_header(records: Buffer, wanted: WantedHeader, at: int = 0) -> bytes | None:
    """Its value. b"": the value is too long, or the bytes are no record. None: there is none. `at`: where the record begins."""
    try:
        return first_record_header(records, wanted.name, at, wanted.bytes_max)
    except ValueError:
        return b""


def first_record_header(records: Buffer, name: bytes, at: int, bytes_max: int) -> bytes | None:
    """The value of the first record's header `name`: of several the first. None: its value is null, or the record has no such
    header among the first 16.

    `at`: where the first record begins, 61 in an uncompressed batch. Raises ValueError for bytes that are no record, and for a
    value longer than `bytes_max`. What follows the header is not looked at.
    """
    try:
        length, position = varint(records, at)
        end = position + length
        if not position <= end <= len(records):
            raise ValueError(f"a record of {length} bytes, {len(records) - position} remain")
        _, position = varint(records, position + 1)  # the timestamp, after the attributes
        _, position = varint(records, position)  # the offset
        position = _after_field(records, position)
        position = _after_field(records, position)
        count, position = varint(records, position)
        for _ in range(min(count, HEADERS_MAX)):
            length, position = varint(records, position)
            if length < 0:
                raise ValueError("a record header has no name")
            found = length == len(name) and records[position : position + length] == name
            position += length
            if found:
                return _value(records, position, end, bytes_max)
            position = _after_field(records, position)
    except IndexError:
        raise ValueError("a record ends within a field") from None
    if position > end:
        raise ValueError("a field is longer than its record")
    return None


def _after_field(records: Buffer, position: int) -> int:
    """The position after a field that may be null. The next read finds that it lies beyond the end."""
    length, position = varint(records, position)
    if length < 0:
        if length < -1:
            raise ValueError(f"a field of {length} bytes")
        return position
    return position + length


def _value(records: Buffer, position: int, end: int, bytes_max: int) -> bytes | None:
    length, position = varint(records, position)
    if length == -1:
        return None
    if not 0 <= length <= end - position:
        raise ValueError(f"a header of {length} bytes, {end - position} remain of its record")
    if length > bytes_max:
        raise ValueError(f"a header of {length} bytes, {bytes_max} are the most")
    return bytes(records[position : position + length])
