"""Passes over the records of one decompressed batch. The first checks whether they are sound, without an object for any. The
second gives the positions of each record's parts, in a batch that the first found sound."""

import sys
from collections.abc import Iterator
from typing import NamedTuple

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batch_layout import wrapped_timestamp
from libs.wire.record_batches.batches import BatchError, BatchHeader
from libs.wire.record_batches.varints import SHIFT_MAX, SHIFT_MAX_OF_32_BITS, EndlessNumber, longer, varint


class Survey(NamedTuple):
    min_delta: int
    max_delta: int
    null_keys: bool
    in_order: bool
    """Whether the offset deltas are 0, 1, 2 …"""


class TooManyHeaders(Exception):
    """A batch with more headers than the caller has time for."""


def survey(body: bytes, count: int, headers_max: int = sys.maxsize) -> Survey:
    """The extremes of a batch's records, found in one pass. Raises BatchError if their structure is broken, and TooManyHeaders.

    Numbers of one and two bytes are read in place: see `varints`.
    """
    size = len(body)
    position = min_delta = max_delta = 0
    null_keys, in_order, first = False, True, True
    try:
        for index in range(count):
            raw = body[position]
            position += 1
            if raw > 0x7F:
                if (byte := body[position]) < 0x80:
                    raw += (byte << 7) - 0x80
                    position += 1
                else:
                    raw, position = _varint(body, position, raw)
            stop = position + (raw >> 1)
            if raw & 1 or stop > size:
                raise _premature(index)
            raw = body[position + 1]  # after the attributes, which are unused
            position += 2
            if raw > 0x7F:
                if (byte := body[position]) < 0x80:
                    raw += (byte << 7) - 0x80
                    position += 1
                else:
                    raw, position = _varlong(body, position, raw)
            if raw or first:
                delta = (raw >> 1) ^ -(raw & 1)
                if first:
                    min_delta = max_delta = delta
                    first = False
                elif delta > max_delta:
                    max_delta = delta
                elif delta < min_delta:
                    min_delta = delta
            elif min_delta > 0:
                min_delta = 0
            elif max_delta < 0:
                max_delta = 0
            raw = body[position]
            position += 1
            if raw > 0x7F:
                if (byte := body[position]) < 0x80:
                    raw += (byte << 7) - 0x80
                    position += 1
                else:
                    raw, position = _varint(body, position, raw)
            if raw != index << 1:
                in_order = False
            raw = body[position]
            position += 1
            if raw == 1:
                null_keys = True
            else:
                if raw > 0x7F:
                    if (byte := body[position]) < 0x80:
                        raw += (byte << 7) - 0x80
                        position += 1
                    else:
                        raw, position = _varint(body, position, raw)
                if raw & 1:
                    raise _invalid_record(index)
                position += raw >> 1
            raw = body[position]
            position += 1
            if raw != 1:
                if raw > 0x7F:
                    if (byte := body[position]) < 0x80:
                        raw += (byte << 7) - 0x80
                        position += 1
                    else:
                        raw, position = _varint(body, position, raw)
                if raw & 1:
                    raise _invalid_record(index)
                position += raw >> 1
            if body[position]:
                position, headers = _after_headers(body, position, stop, index, headers_max)
                headers_max -= headers
            else:
                position += 1
            if position != stop:
                raise _invalid_record(index)
    except IndexError:
        raise _premature(index) from None
    if position != size:
        raise BatchError(ErrorCode.INVALID_RECORD, f"{size - position} bytes follow the last of {count} records")
    return Survey(min_delta, max_delta, null_keys, in_order)


def _after_headers(body: bytes, position: int, stop: int, index: int, headers_max: int) -> tuple[int, int]:
    """The position after a record's headers, and their number."""
    raw = body[position]
    position += 1
    if raw > 0x7F:
        raw, position = _varint(body, position, raw)
    if raw & 1 or raw >> 1 > (stop - position) // 2:
        raise BatchError(ErrorCode.INVALID_RECORD, f"record {index} claims more headers than {stop - position} bytes can hold")
    if raw >> 1 > headers_max:
        raise TooManyHeaders
    for _ in range(raw >> 1):
        length = body[position]
        position += 1
        if length > 0x7F:
            length, position = _varint(body, position, length)
        if length & 1:
            raise BatchError(ErrorCode.INVALID_RECORD, f"a header of record {index} has no name")
        position += length >> 1
        length = body[position]
        position += 1
        if length > 0x7F:
            length, position = _varint(body, position, length)
        if length != 1:
            if length & 1:
                raise _invalid_record(index)
            position += length >> 1
        if position > stop:
            raise _invalid_record(index)
    return position, raw >> 1


def _varint(body: bytes, position: int, first: int) -> tuple[int, int]:
    """A number of up to 32 bits, of which `first` was read before `position`. The zig-zag is not undone. With it, the position
    after the number. Raises IndexError at the end."""
    return _bounded(body, position, first, SHIFT_MAX_OF_32_BITS, 0xFFFF_FFFF)


def _varlong(body: bytes, position: int, first: int) -> tuple[int, int]:
    return _bounded(body, position, first, SHIFT_MAX, 0xFFFF_FFFF_FFFF_FFFF)


def _bounded(body: bytes, position: int, first: int, shift_max: int, most: int) -> tuple[int, int]:
    try:
        raw, position = longer(body, position, first, shift_max)
    except EndlessNumber:
        raise BatchError(ErrorCode.INVALID_RECORD, "a record has a number that does not end") from None
    if raw > most:
        raise BatchError(ErrorCode.INVALID_RECORD, "a record has a number that is too large for its kind")
    return raw, position


def _premature(index: int) -> BatchError:
    return BatchError(ErrorCode.INVALID_RECORD, f"the records end within record {index}")


def _invalid_record(index: int) -> BatchError:
    return BatchError(ErrorCode.INVALID_RECORD, f"record {index} is not as long as its fields")


class RecordParts(NamedTuple):
    """The positions of a record's parts in the body, which a survey found sound."""

    timestamp: int
    has_key: bool
    start: int  # of its attributes, after its length
    offset_at: int
    offset_end: int
    stop: int


def record_parts(body: bytes, header: BatchHeader) -> Iterator[RecordParts]:
    position = 0
    for _ in range(header.record_count):
        length, start = varint(body, position)
        delta, offset_at = varint(body, start + 1)
        timestamp = wrapped_timestamp(header.base_timestamp + delta)
        _, offset_end = varint(body, offset_at)
        position = start + length
        yield RecordParts(timestamp, body[offset_end] != 1, start, offset_at, offset_end, position)
