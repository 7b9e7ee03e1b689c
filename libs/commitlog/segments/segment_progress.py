"""The progress of a segment and its indexes, as a resume point keeps it."""

from typing import NamedTuple


class SegmentProgress(NamedTuple):
    """The progress of a segment and its indexes."""

    base_offset: int
    size: int
    index_entries: int
    time_entries: int
    max_timestamp: int
    offset_of_max_timestamp: int
    bytes_since_index: int
