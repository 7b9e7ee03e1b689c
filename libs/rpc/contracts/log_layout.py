"""The places of a partition's committed records, for callers that share the leader's kernel and read its files themselves."""

from libs.lean_dataclass import dataclass

LOG_LAYOUT = "storage.outline"

UNKNOWN_TIMESTAMP = -2


@dataclass(frozen=True, slots=True)
class LogLayoutRequest:
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """One segment of a log layout. Files are named as in `FileRange`, and opened with OPEN_FILE. An index count is a lower bound;
    0: it is not given."""

    base_offset: int
    file_id: int
    readable_to: int  # its committed batches end at this position
    max_timestamp: int = UNKNOWN_TIMESTAMP
    offset_index: int = 0
    offset_entries: int = 0
    time_index: int = 0
    time_entries: int = 0


@dataclass(frozen=True, slots=True)
class LogLayoutReply:
    """The log layout, with `segments` in the order of their offsets. They are empty with an `error`, or if there are too many."""

    error: int
    leader_epoch: int = -1
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    segments: tuple[SegmentLayout, ...] = ()
