"""Resume points, `<offset>.resume`: the state with which an opening need read nothing before that offset.

A resume point is written only after the log and its indexes were synced up to it, so its presence *is* the recovery point.
Truncation removes those beyond its cut before it cuts.

Kafka ignores the file. It holds state for which Kafka has no file: the indexes as of that offset, all five cached batches of each
producer, and the segments before it.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from libs.commitlog.files.checked_content import CheckedContent
from libs.commitlog.model.errors import DirectoryDamaged
from libs.commitlog.opening.segment_list import MissingSegment, SegmentList, format_segments, parse_segments
from libs.commitlog.producers.producer_entries import ProducerEntry, split_entries
from libs.commitlog.producers.producer_table import ProducerTable, packed_of
from libs.commitlog.segments.segment_progress import SegmentProgress

_HEAD = struct.Struct(">4sI")
_MAGIC = b"PSR1"
_BODY = struct.Struct(">qqqiiqqqi")
_COUNT = struct.Struct(">i")
_ABORTED = struct.Struct(">qi")
_CHECKSUM = struct.Struct(">qI")


class ResumePoint(NamedTuple):
    offset: int
    segment: SegmentProgress
    producers: Mapping[int, ProducerEntry]
    aborted: dict[int, int] = {}
    """The number of entries in each segment's `.txnindex`, which exists only if there are any. Cleaning leaves fewer."""
    before: SegmentList = ()
    """The segments before the one that `segment` describes."""
    aborted_checksums: dict[int, int] = {}
    """The CRC of those entries, by segment."""

    def missing(self, sizes: Mapping[int, int]) -> MissingSegment | None:
        """The missing part of the segment in which recovery begins. `sizes`: sizes of existing segments, by base offset."""
        base_offset, size = self.segment.base_offset, sizes.get(self.segment.base_offset, -1)
        if size >= self.segment.size:
            return None
        return MissingSegment(base_offset, max(self.offset, base_offset + 1), self.segment.size, size)

    def checksums_of(self, sizes: Mapping[int, int]) -> dict[int, int]:
        """The checksums without those of segments that a cleaner has replaced since. `sizes`: as for `missing`."""
        replaced = {base for base, size in self.before if sizes.get(base) != size}
        return {base: checksum for base, checksum in self.aborted_checksums.items() if base not in replaced}


def resume_content(point: ResumePoint) -> CheckedContent:
    """The content of a resume point, formatted while it is written. Other threads may change the log meanwhile."""
    return CheckedContent(_HEAD, _MAGIC, lambda: _pieces(point))


def _pieces(point: ResumePoint) -> Iterator[bytes]:
    producers = packed_of(point.producers)
    yield _BODY.pack(point.offset, *point.segment, len(producers))
    for entries in producers.slices():
        yield b"".join(entries)
    parts = [_COUNT.pack(len(point.aborted))]
    parts += [_ABORTED.pack(base_offset, entries) for base_offset, entries in point.aborted.items()]
    parts.append(format_segments(point.before))
    parts.append(_COUNT.pack(len(point.aborted_checksums)))
    parts += [_CHECKSUM.pack(base_offset, checksum) for base_offset, checksum in point.aborted_checksums.items()]
    yield b"".join(parts)


def parse_resume(content: bytes, path: str) -> ResumePoint:
    """Raises DirectoryDamaged."""
    try:
        body = CheckedContent.body_of(content, _HEAD, _MAGIC)
        if body is None:
            raise DirectoryDamaged(f"{path}: not a sound resume point")
        offset, *segment, producer_count = _BODY.unpack_from(body)
        entries, position = split_entries(content, _HEAD.size + _BODY.size, producer_count)
        rest = memoryview(content)[position:]
        aborted = _parse_table(rest, _ABORTED)
        rest = rest[_COUNT.size + len(aborted) * _ABORTED.size :]
        before = parse_segments(rest)
        checksums = _parse_table(rest[len(format_segments(before)) :], _CHECKSUM)
    except struct.error as error:
        raise DirectoryDamaged(f"{path}: {error}") from error
    return ResumePoint(offset, SegmentProgress(*segment), ProducerTable.of_packed(entries), aborted, before, checksums)


def _parse_table(body: memoryview, row: struct.Struct) -> dict[int, int]:
    """Reads the optional tables. Older versions wrote none."""
    if not body:
        return {}
    (count,) = _COUNT.unpack_from(body)
    return dict(row.iter_unpack(body[_COUNT.size : _COUNT.size + count * row.size]))
