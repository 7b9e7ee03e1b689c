"""Rolling of segments by age (segment.ms, less a share of segment.jitter.ms), and appends that span two segments.

The share comes from the partition's name and the segment's base offset. So partitions that were filled together do not roll
together. A restart, another replica and a replayed simulation all get the same share.
"""

import posixpath
import zlib
from collections.abc import Iterator, Sequence

from libs.commitlog.files.filesystem import Buffer
from libs.commitlog.model.config import LogConfig
from libs.commitlog.partition_log.sync_ledger import SyncLedger
from libs.commitlog.segments.segment import Segment


def age_ms_max(directory: str, base_offset: int, config: LogConfig) -> int:
    """The greatest age of a segment. As in Kafka, the jitter is at most segment.ms itself."""
    span = min(config.segment_jitter_ms, config.segment_ms)
    if not span:
        return config.segment_ms
    drawn = zlib.crc32(f"{posixpath.basename(directory)}/{base_offset}".encode()) * 0x9E3779B97F4A7C15 >> 16
    return config.segment_ms - drawn % span


def share_out(buffers: Sequence[Buffer], sizes: Sequence[int]) -> Iterator[list[memoryview]]:
    """The bytes of all buffers together, in pieces of these sizes."""
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
    """Restores so many segments, the last with its former size, as if an append that rolled had not happened. Raises OSError,
    LogDamaged."""
    begun, active = segments[count:], segments[count - 1]
    del segments[count:]
    active.cut(size)
    for segment in reversed(begun):
        ledger.revert_begin(segment)
        segment.remove()
    active.trim_indexes(end_offset)
    ledger.unsealed(active)
