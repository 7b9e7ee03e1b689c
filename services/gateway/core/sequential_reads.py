"""The knowledge that one fetch leaves for the next: its offset, the position of its batches, and the end of the committed part.
No I/O.

Committed records are never rewritten. So an answer that named a file and its committed part stays true, and the gateway reads on
from there without a request. It does so for `FRESH_S` only. High watermark and log start offset are those of the answer, and
records that were deleted meanwhile must not be served for long.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from libs.rpc.contracts.storage import Fetched
from libs.wire.record_batches.batch_layout import LENGTH_END
from services.gateway.core.routing import PartitionRoute

FRESH_S = 0.1
BATCHES_MAX = 80
"""The most batch headers to read. A header costs up to a microsecond; beyond so many, a request to the leader is cheaper."""

HEADER = struct.Struct(">qi11xi34x")
"""The fields of a batch header: base offset, batch length, last offset delta."""
_SAMPLE = 8

ReadHeader = Callable[[int], tuple[int, int, int] | None]
"""Reads these fields of the batch at a position of the answered range. None: they cannot be read now."""


class SequentialRead(NamedTuple):
    """The next fetch that needs no request."""

    offset: int
    """The offset of the next fetch. Its batch begins at `position` of the file."""
    position: int
    readable_to: int
    file_id: int
    incarnation: int
    topic_id: bytes
    route: PartitionRoute
    """The leader and epoch that answered. Under any other route the leader must be asked."""
    last_result: Fetched
    expires_at: float


def end_of_batches(size: int, header_at: ReadHeader) -> tuple[int, int] | None:
    """The offset after the last whole batch of an answered range, and the bytes up to that batch's end.

    None: they are unknown, or no batch is whole.
    """
    position, offset = 0, -1
    for number in range(BATCHES_MAX):
        if position + HEADER.size > size:
            break
        if number == _SAMPLE and position * BATCHES_MAX < size * _SAMPLE:
            return None  # so many small batches that reading all headers costs too much
        header = header_at(position)
        if header is None:
            return None
        base_offset, length, last_offset_delta = header
        stop = position + LENGTH_END + length
        if length <= 0 or stop > size:
            break
        position, offset = stop, base_offset + last_offset_delta + 1
    else:
        return None
    return (offset, position) if position else None


def readable_bytes(sequential_read: SequentialRead, limit: int, min_bytes: int) -> int:
    """The bytes that the next fetch may answer. 0: its leader must be asked, which may wait for more records."""
    length = min(limit, sequential_read.readable_to - sequential_read.position)
    return length if length >= max(1, min(min_bytes, limit)) else 0
