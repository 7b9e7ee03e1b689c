"""Where the committed records of a partition stand, for callers that share the leader's kernel and read its files themselves."""

from dataclasses import dataclass

OUTLINE = "storage.outline"

UNKNOWN_TIMESTAMP = -2


@dataclass(frozen=True, slots=True)
class Outline:
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True)
class SegmentOutline:
    """Files are named as in `FileRange`, and opened with OPEN_FILE. An index has so many entries at least; 0: not told."""

    base_offset: int
    file_id: int
    readable_to: int  # its committed batches end at this position
    max_timestamp: int = UNKNOWN_TIMESTAMP
    offset_index: int = 0
    offset_entries: int = 0
    time_index: int = 0
    time_entries: int = 0


@dataclass(frozen=True, slots=True)
class OutlineReply:
    """`segments` in the order of their offsets; none with an `error`, or if there are too many to tell."""

    error: int
    leader_epoch: int = -1
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    segments: tuple[SegmentOutline, ...] = ()
