"""Finding a log again after a crash: read from the resume point only, keep what is whole, cut at the first bad byte.

A loop over batch headers (about a million a second) with the CRC of each; indexes, epochs and producers follow along, so that
they are what they would have been without the crash.
"""

from crc32c import crc32c

from libs.commitlog.epochs import LeaderEpochs
from libs.commitlog.filesystem import FileSystem
from libs.commitlog.producers import ProducerState
from libs.commitlog.segment import RELATIVE_OFFSET_MAX, Segment
from libs.wire.batches import CONTROL, CRC_START, HEADER, HEADER_SIZE, LENGTH_END, BatchError, BatchHeader
from libs.wire.records import iter_records

_SMALLEST_LENGTH = HEADER_SIZE - LENGTH_END


def scan(fs: FileSystem, segment: Segment, position: int, next_offset: int, state: "tuple[LeaderEpochs, ProducerState]") -> int:
    """Reads `segment` from `position`, where the batch at `next_offset` or later belongs, to its end or to the first bad byte.

    Sets the segment's size and `next_offset` to what is whole, and returns by how many bytes the file is longer.
    Its indexes must have been resumed or begun at `position`.
    """
    epochs, producers = state
    end = fs.size(segment.file.fd)
    view = fs.map_read(segment.file.fd, end)
    segment.extend_indexes(end - position)
    unpack, last_header = HEADER.unpack_from, end - HEADER_SIZE
    offset_max = segment.base_offset + RELATIVE_OFFSET_MAX
    latest_epoch = epochs.latest
    while position <= last_header:
        fields = unpack(view, position)
        base_offset, length, epoch, magic, crc, attributes, delta, _, max_timestamp, producer_id, _, _, _ = fields
        stop = position + length + LENGTH_END
        if (
            magic != 2
            or length < _SMALLEST_LENGTH
            or stop > end
            or base_offset < next_offset
            or delta < 0
            or base_offset + delta > offset_max
            or crc32c(view[position + CRC_START : stop]) != crc
        ):
            break
        last_offset = base_offset + delta
        segment.note_batch(position, stop - position, last_offset, max_timestamp, last_offset)
        if epoch > latest_epoch:
            epochs.assign(epoch, base_offset)
            latest_epoch = epoch
        if producer_id >= 0:
            header = BatchHeader._make(fields)
            producers.replay(header, coordinator_epoch(view[position:stop]) if attributes & CONTROL else -1)
        next_offset = last_offset + 1
        position = stop
    segment.size = position
    segment.next_offset = next_offset
    return end - position


def coordinator_epoch(batch: memoryview) -> int:
    """What a transaction marker says about who wrote it; -1 if it does not."""
    try:
        value = next(iter_records(batch)).value
    except (BatchError, StopIteration):
        return -1
    return int.from_bytes(value[2:6], "big", signed=True) if value is not None and len(value) >= 6 else -1


def replay_headers(segments: list[Segment], start_offset: int, end_offset: int, producers: ProducerState) -> None:
    """Brings producer state, as of `start_offset`, up to `end_offset`."""
    for segment in segments:
        first = segment.find(start_offset)
        if first is None:
            continue
        for place in segment.walk(first.position, segment.size):
            if place.base_offset >= end_offset:
                return
            header = BatchHeader.at(segment.header_at(place.position))
            if header.producer_id >= 0:
                marker = coordinator_epoch(memoryview(segment.batch_at(place))) if header.is_control else -1
                producers.replay(header, marker)
