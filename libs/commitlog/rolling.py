"""When a segment is old enough: segment.ms, less its own share of segment.jitter.ms.

The share comes from the partition's name and the segment's base offset. So partitions that were filled together do not roll
together, while a restart, another replica and a replayed simulation all come to the same number.
"""

import posixpath
import zlib

from libs.commitlog.config import LogConfig


def age_ms_max(directory: str, base_offset: int, config: LogConfig) -> int:
    """Takes no more off than segment.ms itself, as in Kafka."""
    span = min(config.segment_jitter_ms, config.segment_ms)
    if not span:
        return config.segment_ms
    drawn = zlib.crc32(f"{posixpath.basename(directory)}/{base_offset}".encode()) * 0x9E3779B97F4A7C15 >> 16
    return config.segment_ms - drawn % span
