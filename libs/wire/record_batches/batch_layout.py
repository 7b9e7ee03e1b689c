"""The positions of fields in a record batch of version 2. It needs no library."""

import struct
from enum import IntEnum

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
LENGTH_END = 12  # `batch_length` counts the bytes after this position
SMALLEST_LENGTH = HEADER_SIZE - LENGTH_END
CRC_START = 21  # the CRC covers everything from the attributes on; offsets and leader epoch lie before it

CRC_AT, ATTRIBUTES_AT, MAX_TIMESTAMP_AT, PRODUCER_ID_AT = 17, 21, 35, 43
FLAGS_AT = ATTRIBUTES_AT + 1
"""The low byte of the attributes, which has the codec and the flags."""

TIMESTAMP_MIN, TIMESTAMP_MAX = -(1 << 63), (1 << 63) - 1
"""A record's time is the sum of two numbers that a client chose, and may lie outside of them."""


def wrapped_timestamp(timestamp: int) -> int:
    """The 64 bits that Java's arithmetic leaves of a sum. Kafka's brokers and clients read record times so."""
    return (timestamp - TIMESTAMP_MIN & 0xFFFF_FFFF_FFFF_FFFF) + TIMESTAMP_MIN


CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40


_PRODUCER = struct.Struct(">qhi")
_SEQUENCES = 1 << 31


def producer_in(batch: memoryview | bytes) -> tuple[int, int, int] | None:
    """Producer id, producer epoch and base sequence of a batch that nobody has checked. None: it has no producer id."""
    if len(batch) < HEADER_SIZE:
        return None
    found = _PRODUCER.unpack_from(batch, PRODUCER_ID_AT)
    return found if found[0] >= 0 else None


def is_before(sequence: int, other: int) -> bool:
    """Whether a sequence comes before another one. After the greatest, sequences start again at 0."""
    return 0 < (other - sequence) % _SEQUENCES < _SEQUENCES // 2


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4
