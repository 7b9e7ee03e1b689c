"""What an audit is asked for."""

from dataclasses import dataclass

from services.pipeline.spark.cluster import Topics


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    topics: Topics
    bucket_offsets: int = 100_000
    slice_s: int = 3600
    """A divisor of a day, so that each slice lies in one date of the lake."""
    read_uncommitted: bool = False
    findings_max: int = 10_000
