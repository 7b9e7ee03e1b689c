"""Finding a log again after a crash: read from the resume point only, keep what is whole, cut at the first bad byte.

A loop over batch headers (about a million a second) with the CRC of each; indexes, epochs and producers follow along, so that
they are what they would have been without the crash.
"""

from collections import deque

from crc32c import crc32c

from libs.commitlog.epochs import LeaderEpochs
from libs.commitlog.filesystem import FileSystem
from libs.commitlog.producers import CACHED_BATCHES, ProducerState
from libs.commitlog.segment import RELATIVE_OFFSET_MAX, Segment
from libs.wire.batches import (
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    TRANSACTIONAL,
    BatchError,
    BatchHeader,
)
from libs.wire.records import iter_records

_SMALLEST_LENGTH = HEADER_SIZE - LENGTH_END
_ORDER_MATTERS = TRANSACTIONAL | CONTROL
_CHUNK = 4096


def scan(fs: FileSystem, segment: Segment, position: int, next_offset: int, state: tuple[LeaderEpochs, ProducerState]) -> int:
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
    found: list[tuple[int, int, int, int, int, int]] = []
    found_from = position
    latest = LatestBatches(producers)
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
        found.append((base_offset, last_offset, stop - position, max_timestamp, last_offset, epoch))
        if len(found) >= _CHUNK:
            found_from = segment.note_batches(found, found_from)
            found.clear()
        if epoch > latest_epoch:
            epochs.assign(epoch, base_offset)
            latest_epoch = epoch
        if producer_id >= 0:
            if attributes & _ORDER_MATTERS:
                latest.replay()
                marker = coordinator_epoch(view[position:stop]) if attributes & CONTROL else -1
                producers.replay(BatchHeader._make(fields), marker)
            else:
                latest.add(producer_id, fields)
        next_offset = last_offset + 1
        position = stop
    latest.replay()
    segment.note_batches(found, found_from)
    segment.size = position
    segment.next_offset = next_offset
    return end - position


class LatestBatches:
    """The last five batches of each producer: the ones before leave no trace outside of transactions, so they need no replay."""

    def __init__(self, producers: ProducerState) -> None:
        self._producers = producers
        self._latest: dict[int, deque[tuple[int, ...]]] = {}

    def add(self, producer_id: int, fields: tuple[int, ...]) -> None:
        try:
            self._latest[producer_id].append(fields)
        except KeyError:
            self._latest[producer_id] = deque((fields,), CACHED_BATCHES)

    def replay(self) -> None:
        for batches in self._latest.values():
            for fields in batches:
                self._producers.replay(BatchHeader._make(fields))
        self._latest.clear()


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
