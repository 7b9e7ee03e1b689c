"""What one fetch teaches about the next: its offset, where its batches stand, and how far they may be read unasked. No I/O.

What is committed is never rewritten, so a leader's answer that named a file and how far it is committed stays true: the
gateway reads on from there without asking again. For `FRESH_S` only: the high watermark and the log's start in the answer are
those that the leader told, and records that were deleted meanwhile must not be answered for long.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from libs.rpc.contracts.storage import Fetched
from libs.wire.batch_layout import LENGTH_END
from services.gateway.core.routing import PartitionRoute

FRESH_S = 0.1
BATCHES_MAX = 80
"""A look at a header costs up to a microsecond; beyond so many, asking the leader is cheaper."""

HEADER = struct.Struct(">qi11xi34x")
"""Of a batch: base offset, batch length, last offset delta."""
_SAMPLE = 8

ReadHeader = Callable[[int], tuple[int, int, int] | None]
"""The header's three fields, of the batch at a position of the answered range. None: cannot be told now."""


class ReadOn(NamedTuple):
    offset: int
    """Of the next fetch. Its batch stands at `position` of the file."""
    position: int
    readable_to: int
    file_id: int
    incarnation: int
    topic_id: bytes
    route: PartitionRoute
    """Leader and epoch that answered: another one knows better."""
    told: Fetched
    expires_at: float


def after(size: int, header_at: ReadHeader) -> tuple[int, int] | None:
    """The offset after the last whole batch of an answered range, and how many bytes it and those before it have.

    None: unknown, or not one batch is whole.
    """
    position, offset = 0, -1
    for number in range(BATCHES_MAX):
        if position + HEADER.size > size:
            break
        if number == _SAMPLE and position * BATCHES_MAX < size * _SAMPLE:
            return None  # so many so small ones: do not begin to look at all of them
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


def readable_bytes(read_on: ReadOn, limit: int, min_bytes: int) -> int:
    """How much the next fetch may answer; 0 if its leader should be asked, which may wait for more."""
    length = min(limit, read_on.readable_to - read_on.position)
    return length if length >= max(1, min(min_bytes, limit)) else 0
