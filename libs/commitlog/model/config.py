"""The log settings that a topic's configs make. Sizes are bytes, times are ms."""

from libs.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LogConfig:
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    preallocate: bool = False
    producer_ids_max: int = 100_000
    """The most producers that the log remembers, unless their transactions are open."""
