"""The plan of a truncation: the place of the cut, and the fate of each segment. Saved state is rewound in
`libs/commitlog/opening/producer_rewind.py`."""

from collections.abc import Sequence
from typing import NamedTuple

from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.segments.segment import Segment
from libs.commitlog.segments.segment_batches import BatchPosition


class TruncationPlan(NamedTuple):
    slot: int
    """The slot of the segment that is cut. Later segments are removed."""
    position: int
    end_offset: int
    begins_anew: bool
    """Whether nothing of that segment stays. The next one may then have the same name."""
    resumes_max: int
    """The last offset of resume points that stay."""
    snapshots_max: int
    """The last offset of producer snapshots that stay."""


EVERYTHING = TruncationPlan(0, 0, 0, begins_anew=True, resumes_max=-1, snapshots_max=-1)


def plan_truncation(
    segments: Sequence[Segment], location: tuple[Segment, BatchPosition] | None, offset: int, log_start_offset: int
) -> TruncationPlan:
    """The plan of a truncation. `location`: the first batch that ends at or after `offset`, which is not before the log's start;
    None if there is none."""
    if location is None:
        slot, position, end_offset = len(segments) - 1, segments[-1].size, offset
    else:
        segment, place = location
        slot, position, end_offset = segments.index(segment), place.position, min(offset, place.base_offset)
    if end_offset < log_start_offset:  # the start lies within the batch, so nothing of the log stays
        return EVERYTHING._replace(end_offset=log_start_offset)
    if position or segments[slot].base_offset < end_offset:
        return TruncationPlan(slot, position, end_offset, begins_anew=False, resumes_max=end_offset, snapshots_max=end_offset)
    while slot and segments[slot - 1].base_offset >= end_offset:
        slot -= 1  # the cleaner left nothing in it, and the next segment is to have its name
    # A resume point at the cut may name the segment that is removed. The snapshot at the cut may be the only trace of producers
    # whose batches left with the log's start.
    return TruncationPlan(slot, position, end_offset, begins_anew=True, resumes_max=end_offset - 1, snapshots_max=end_offset)


def truncate_segments(fs: FileSystem, directory: str, segments: Sequence[Segment], cut: TruncationPlan) -> list[Segment]:
    """Cuts and removes segments, on the disk too except for names. Returns those that stay, sealed. Raises OSError, LogDamaged.

    No segment behind the cut may come back: where the cleaner was, a gap between segments is legal.
    """
    for segment in reversed(segments[cut.slot + 1 :]):
        segment.remove()
    if segments[cut.slot + 1 :] and not cut.begins_anew:
        fs.fsync_directory(directory)
    remaining, last = list(segments[: cut.slot]), segments[cut.slot]
    if cut.begins_anew:
        last.remove()
    else:
        last.cut(cut.position)
        last.trim_indexes(cut.end_offset)
        last.seal(cut.end_offset)
        remaining.append(last)
    if remaining:
        remaining[-1].next_offset = cut.end_offset
    return remaining
