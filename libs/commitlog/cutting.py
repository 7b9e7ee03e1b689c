"""Where a truncation cuts, and what becomes of the segments. What was saved beside them: `rewinding.py`."""

from collections.abc import Sequence
from typing import NamedTuple

from libs.commitlog.filesystem import FileSystem
from libs.commitlog.segment import Segment
from libs.commitlog.segment_batches import BatchPlace


class Cut(NamedTuple):
    slot: int
    """The segment that is cut; those behind it go."""
    position: int
    end_offset: int
    begins_anew: bool
    """Nothing of that segment stays, and the next one may be called like it."""
    resumes_max: int
    """Resume points at later offsets go."""
    snapshots_max: int
    """Producer snapshots of later offsets go."""


EVERYTHING = Cut(0, 0, 0, begins_anew=True, resumes_max=-1, snapshots_max=-1)


def plan_cut(segments: Sequence[Segment], found: tuple[Segment, BatchPlace] | None, offset: int, log_start_offset: int) -> Cut:
    """`found`: the first batch that ends at or after `offset`, which is not before the log's start; None if there is none."""
    if found is None:
        slot, position, end_offset = len(segments) - 1, segments[-1].size, offset
    else:
        segment, place = found
        slot, position, end_offset = segments.index(segment), place.position, min(offset, place.base_offset)
    if end_offset < log_start_offset:  # the start lies within the batch: nothing of the log stays
        return EVERYTHING._replace(end_offset=log_start_offset)
    if position or segments[slot].base_offset < end_offset:
        return Cut(slot, position, end_offset, begins_anew=False, resumes_max=end_offset, snapshots_max=end_offset)
    while slot and segments[slot - 1].base_offset >= end_offset:
        slot -= 1  # the cleaner left nothing in it, and the next one is to be called like it
    # A resume point at the cut may name the segment that goes. The snapshot of there may be all that tells of producers whose
    # batches left with the log's start.
    return Cut(slot, position, end_offset, begins_anew=True, resumes_max=end_offset - 1, snapshots_max=end_offset)


def cut_segments(fs: FileSystem, directory: str, segments: Sequence[Segment], cut: Cut) -> list[Segment]:
    """From the disk too, but for names. Returns those that stay, sealed. Raises OSError, LogDamaged.

    Behind a segment that is cut no later one may come back: where the cleaner was, a gap between them is legal.
    """
    for segment in reversed(segments[cut.slot + 1 :]):
        segment.remove()
    if segments[cut.slot + 1 :] and not cut.begins_anew:
        fs.fsync_directory(directory)
    kept, last = list(segments[: cut.slot]), segments[cut.slot]
    if cut.begins_anew:
        last.remove()
    else:
        last.cut(cut.position)
        last.trim_indexes(cut.end_offset)
        last.seal(cut.end_offset)
        kept.append(last)
    if kept:
        kept[-1].next_offset = cut.end_offset
    return kept
