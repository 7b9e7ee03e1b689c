"""Walks over the records of a batch as bytes, for their keys and where they begin and end. The cleaner's hot loops.

No object is made of a record: numbers are read in place, one or two bytes on the short path, and a key is the one slice taken.
What cannot be a record raises NonsenseRecord: a wrong offset in a map of keys would cost somebody a value.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

WHOLE_KEY_MAX = 40
_DIGEST_SIZE = WHOLE_KEY_MAX + 1  # longer than any key that stands for itself, so that neither is taken for the other
NULL = 1  # zig-zag of -1


class NonsenseRecord(Exception):
    """The batch matches its CRC, and its records are none."""


def digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_SIZE).digest()


def longer(data: bytes, position: int, raw: int) -> tuple[int, int]:
    """The rest of a varint whose first byte is `raw`, and where it ends. Still zig-zag."""
    raw &= 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, position
        shift += 7
        if shift > 63:
            raise NonsenseRecord("a number of more than ten bytes")


def note_keys(
    offsets: dict[bytes, int], data: bytes, position: int, stop: int, count: int, base_offset: int, last_delta: int
) -> None:
    """Sets the offset of each key of the `count` records in `data[position:stop]`."""
    delta_max = last_delta << 1
    negative = 0
    try:
        for _ in range(count):
            length = data[position]
            position += 1
            if length > 0x7F:
                byte = data[position]
                if byte < 0x80:
                    length = length & 0x7F | byte << 7
                    position += 1
                else:
                    length, position = longer(data, position, length)
            end = position + (length >> 1)
            position += 1  # its attributes
            while data[position] > 0x7F:  # its timestamp
                position += 1
            position += 1
            delta = data[position]
            position += 1
            if delta > 0x7F:
                byte = data[position]
                if byte < 0x80:
                    delta = delta & 0x7F | byte << 7
                    position += 1
                else:
                    delta, position = longer(data, position, delta)
            key_length = data[position]
            position += 1
            if key_length > 0x7F:
                key_length, position = longer(data, position, key_length)
            key_end = position + (key_length >> 1)
            if key_end >= end or delta > delta_max:
                raise NonsenseRecord("a record does not fit into its batch")
            negative |= length | delta
            if key_length & 1:
                if key_length != NULL:
                    raise NonsenseRecord("a key of negative length")
            else:
                key = data[position:key_end]
                offsets[digest(key) if key_length > 80 else key] = base_offset + (delta >> 1)
            position = end
    except IndexError as error:
        raise NonsenseRecord("a record ends within a number") from error
    if negative & 1 or position != stop:
        raise _nonsense(negative, stop - position)


class Survivors(NamedTuple):
    """Which records of a batch stay."""

    kept: int
    runs: list[tuple[int, int]]
    """Where their bytes are, neighbours joined."""
    tombstones: bool
    """One of them has no value."""


def survivors(
    offset_of: Callable[[bytes, int], int],
    data: bytes,
    position: int,
    stop: int,
    count: int,
    base_offset: int,
    last_delta: int,
    keep_tombstones: bool,
) -> Survivors:
    """The records of `data[position:stop]` that are the latest of their keys; `offset_of` is the map's `get`."""
    delta_max = last_delta << 1
    run = position
    runs: list[tuple[int, int]] = []
    dropped = 0
    tombstones = False
    negative = 0
    try:
        for _ in range(count):
            start = position
            length = data[position]
            position += 1
            if length > 0x7F:
                byte = data[position]
                if byte < 0x80:
                    length = length & 0x7F | byte << 7
                    position += 1
                else:
                    length, position = longer(data, position, length)
            end = position + (length >> 1)
            position += 1
            while data[position] > 0x7F:
                position += 1
            position += 1
            delta = data[position]
            position += 1
            if delta > 0x7F:
                byte = data[position]
                if byte < 0x80:
                    delta = delta & 0x7F | byte << 7
                    position += 1
                else:
                    delta, position = longer(data, position, delta)
            key_length = data[position]
            position += 1
            if key_length > 0x7F:
                key_length, position = longer(data, position, key_length)
            key_end = position + (key_length >> 1)
            if key_end >= end or delta > delta_max:
                raise NonsenseRecord("a record does not fit into its batch")
            negative |= length | delta
            if key_length & 1:
                if key_length != NULL:
                    raise NonsenseRecord("a key of negative length")
                # Without a key nothing ever supersedes it: as in Kafka, it goes.
            else:
                key = data[position:key_end]
                if offset_of(digest(key) if key_length > 80 else key, -1) <= base_offset + (delta >> 1):
                    if data[key_end] != NULL:
                        position = end
                        continue
                    if keep_tombstones:
                        tombstones = True
                        position = end
                        continue
            dropped += 1
            if run < start:
                runs.append((run, start))
            run = position = end
    except IndexError as error:
        raise NonsenseRecord("a record ends within a number") from error
    if negative & 1 or position != stop:
        raise _nonsense(negative, stop - position)
    if run < stop:
        runs.append((run, stop))
    return Survivors(count - dropped, runs, tombstones)


def _nonsense(negative: int, rest: int) -> NonsenseRecord:
    """What need not be asked of each record: a length or an offset below zero is odd as a zig-zag, and from a record that
    reaches beyond the end nobody finds back to it."""
    if negative & 1:
        return NonsenseRecord("a length or an offset is negative")
    return NonsenseRecord(f"{rest} bytes follow the last record" if rest > 0 else "a record does not fit into its batch")


def greatest_timestamp_delta(data: bytes, runs: list[tuple[int, int]]) -> int:
    """Of records that were walked over before."""
    greatest = -(1 << 63)
    for position, stop in runs:
        while position < stop:
            length, position = _varint(data, position)
            raw, _ = _varint(data, position + 1)
            position += length >> 1
            delta = (raw >> 1) ^ -(raw & 1)
            if delta > greatest:
                greatest = delta
    return greatest


def shift_timestamps(data: bytes, runs: list[tuple[int, int]], shift: int) -> bytes:
    """The records of `runs` with `shift` added to each timestamp delta, the rest as it was."""
    parts: list[bytes] = []
    for position, stop in runs:
        while position < stop:
            length, position = _varint(data, position)
            end = position + (length >> 1)
            raw, rest = _varint(data, position + 1)
            delta = put_varint(((raw >> 1) ^ -(raw & 1)) + shift)
            parts += (put_varint(1 + len(delta) + end - rest), data[position : position + 1], delta, data[rest:end])
            position = end
    return b"".join(parts)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    raw = data[position]
    return (raw, position + 1) if raw < 0x80 else longer(data, position + 1, raw)


def put_varint(value: int) -> bytes:
    raw = ((value << 1) ^ (value >> 63)) & 0xFFFF_FFFF_FFFF_FFFF
    if raw < 0x80:
        return bytes((raw,))
    parts = bytearray()
    while raw > 0x7F:
        parts.append(raw & 0x7F | 0x80)
        raw >>= 7
    parts.append(raw)
    return bytes(parts)
