"""When a segment is old enough (segment.ms, less its own share of segment.jitter.ms), and how an append goes on in the next one.

The share comes from the partition's name and the segment's base offset. So partitions that were filled together do not roll
together, while a restart, another replica and a replayed simulation all come to the same number.
"""

import posixpath
import zlib
from collections.abc import Iterator, Sequence

from libs.commitlog.config import LogConfig
from libs.commitlog.filesystem import Buffer
from libs.commitlog.segment import Segment
from libs.commitlog.sync_ledger import SyncLedger


def age_ms_max(directory: str, base_offset: int, config: LogConfig) -> int:
    """Takes no more off than segment.ms itself, as in Kafka."""
    span = min(config.segment_jitter_ms, config.segment_ms)
    if not span:
        return config.segment_ms
    drawn = zlib.crc32(f"{posixpath.basename(directory)}/{base_offset}".encode()) * 0x9E3779B97F4A7C15 >> 16
    return config.segment_ms - drawn % span


def share_out(buffers: Sequence[Buffer], sizes: Sequence[int]) -> Iterator[list[memoryview]]:
    """What the buffers hold together, in pieces of these sizes."""
    rest = [memoryview(buffer).cast("B") for buffer in buffers]
    for size in sizes:
        share: list[memoryview] = []
        while size:
            part = rest[0][:size]
            share.append(part)
            size -= len(part)
            if len(part) == len(rest[0]):
                del rest[0]
            else:
                rest[0] = rest[0][len(part) :]
        yield share


def roll_back(segments: list[Segment], count: int, size: int, end_offset: int, ledger: SyncLedger) -> None:
    """Back to so many segments, of which the last had this size: as if an append that rolled had never been. Raises OSError,
    LogDamaged."""
    begun, active = segments[count:], segments[count - 1]
    del segments[count:]
    active.cut(size)
    for segment in reversed(begun):
        ledger.unbegun(segment)
        segment.remove()
    active.trim_indexes(end_offset)
    ledger.unsealed(active)
