"""Recovery after a crash: it reads from the resume point only, keeps the whole batches, and cuts at the first bad byte.

It is a loop over batch headers (about a million a second) with the CRC of each. Indexes, epochs and producers are updated on the
way, so that they end as they would have without the crash.
"""

from collections import deque
from collections.abc import Callable

from crc32c import crc32c

from libs.commitlog.checkpoints.leader_epochs import LeaderEpochs
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.producers.producer_state import CACHED_BATCHES, ProducerState
from libs.commitlog.segments.index import RELATIVE_OFFSET_MAX
from libs.commitlog.segments.segment import Segment
from libs.wire.record_batches.batch_layout import SMALLEST_LENGTH
from libs.wire.record_batches.batches import (
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    TRANSACTIONAL,
    BatchHeader,
)
from libs.wire.record_batches.markers import Marker, read_marker

_ORDER_MATTERS = TRANSACTIONAL | CONTROL
READ_BYTES = 1 << 20
"""The bytes of one read: more would cost memory and gain nothing."""
IDS_AT_ONCE = 5_000
"""The producers whose last batches wait for their replay: about 1 KB each."""
LARGE_BYTES = 16 << 20
"""A batch that claims to be larger is checked piece by piece before it is read as a whole."""


def scan(
    fs: FileSystem,
    segment: Segment,
    position: int,
    next_offset: int,
    state: tuple[LeaderEpochs, ProducerState],
    ids_max: int,
    on_read: Callable[[int], None] | None = None,
) -> int:
    """Reads `segment` from `position`, where the batch at `next_offset` or later belongs, to its end or to the first bad byte.

    It sets the segment's size and `next_offset` to the end of the whole batches, and returns the number of bytes after them. Its
    indexes must have been resumed or begun at `position`. `ids_max` is that of `ProducerReplay`. `on_read` is called with the
    length of each stretch that was read.
    """
    epochs, producers = state
    handle = segment.file.handle
    end = fs.size(handle.fd)
    segment.extend_indexes(end - position)
    unpack, crc_of = HEADER.unpack_from, crc32c
    offset_max = segment.base_offset + RELATIVE_OFFSET_MAX
    latest_epoch = epochs.latest
    batches: list[tuple[int, int, int, int, int, int]] = []
    batches_from = position
    replay = ProducerReplay(producers, ids_max)
    read_size, is_whole = READ_BYTES, True
    while is_whole and position + HEADER_SIZE <= end:
        # No mapping: an unreadable sector is an error here, and would end the process there.
        length_asked = min(read_size, end - position)
        view = memoryview(_read(fs, segment, length_asked, position))
        is_whole = len(view) == length_asked
        start, read_size = position, READ_BYTES
        at, length_read = 0, len(view)
        while at + HEADER_SIZE <= length_read:
            fields = unpack(view, at)
            base_offset, length, epoch, magic, crc, attributes, delta, _, max_timestamp, producer_id, _, _, _ = fields
            stop = at + length + LENGTH_END
            if stop > length_read and magic == 2 and start + stop <= end and is_whole:
                read_size = max(stop - at, READ_BYTES)
                is_whole = read_size <= LARGE_BYTES or _crc_of(fs, segment, start + at + CRC_START, start + stop) == crc
                break
            if (
                magic != 2
                or length < SMALLEST_LENGTH
                or stop > length_read
                or base_offset < next_offset
                or delta < 0
                or base_offset + delta > offset_max
                or crc_of(view[at + CRC_START : stop]) != crc
            ):
                is_whole = False
                break
            last_offset = base_offset + delta
            batches.append((base_offset, last_offset, stop - at, max_timestamp, last_offset, epoch))
            if epoch > latest_epoch:
                epochs.assign(epoch, base_offset)
                latest_epoch = epoch
            if producer_id >= 0:
                if attributes & _ORDER_MATTERS:
                    marker = read_marker(view[at:stop]) if attributes & CONTROL else None
                    replay.in_order(BatchHeader._make(fields), marker)
                else:
                    replay.add(producer_id, fields)
            next_offset = last_offset + 1
            at = stop
        batches_from = segment.note_batches(batches, batches_from)
        batches.clear()
        position = start + at
        if on_read is not None:
            on_read(at)
    replay.end()
    segment.size = position
    segment.next_offset = next_offset
    return end - position


def _crc_of(fs: FileSystem, segment: Segment, position: int, end: int) -> int:
    """The CRC of a batch, in bounded memory: a length that a flipped bit made large must not cost a gigabyte."""
    crc = 0
    while position < end:
        content = _read(fs, segment, min(LARGE_BYTES, end - position), position)
        if not content:
            return -1
        crc = crc32c(content, crc)
        position += len(content)
    return crc


def _read(fs: FileSystem, segment: Segment, length: int, position: int) -> bytes:
    """The bytes at `position`, fewer than `length` only at the file's end. Raises OSError, which names the file."""
    try:
        handle = segment.file.handle
        content = fs.pread(handle.fd, length, position)
        while len(content) < length:
            rest = fs.pread(handle.fd, length - len(content), position + len(content))
            if not rest:
                break
            content += rest
    except OSError as error:
        raise OSError(error.errno, f"cannot be read at byte {position}: {error.strerror}", segment.file.path) from error
    return content


class ProducerReplay:
    """Brings a state of producers forward, batch by batch. At its end the state knows at most `ids_max` producers whose
    transactions are not open, as after an append; on the way some thousands more.

    Of each producer it keeps the last five batches for a while: earlier ones leave no trace outside of transactions, so they need
    no replay. Clients may make ids up, so it keeps the batches of a bounded number of producers.
    """

    def __init__(self, producers: ProducerState, ids_max: int) -> None:
        self._producers, self._ids_max = producers, ids_max
        self._latest: dict[int, deque[tuple[int, ...]]] = {}
        self._evicts_at = ids_max + IDS_AT_ONCE

    def add(self, producer_id: int, fields: tuple[int, ...]) -> None:
        """Adds a batch outside of transactions."""
        try:
            self._latest[producer_id].append(fields)
        except KeyError:
            if len(self._latest) >= IDS_AT_ONCE:
                self._replay()
            self._latest[producer_id] = deque((fields,), CACHED_BATCHES)

    def in_order(self, header: BatchHeader, marker: Marker | None) -> None:
        """Replays a batch of a transaction, or a marker, after all before it."""
        self._replay()
        self._producers.replay(header, marker)

    def end(self) -> None:
        self._replay()
        self._evict()

    def _replay(self) -> None:
        producers = self._producers
        # Those that appended last come last: the order of entries is that of evictions.
        for batches in sorted(self._latest.values(), key=_offset_of_last):
            for fields in batches:
                producers.replay(BatchHeader._make(fields))
        self._latest.clear()
        if producers.entries.count >= self._evicts_at:
            self._evict()
            self._evicts_at = max(self._ids_max, producers.entries.count) + IDS_AT_ONCE

    def _evict(self) -> None:
        entries = self._producers.entries
        if entries.count > self._ids_max or entries.crowded:
            self._producers.evict(self._ids_max, entries.count)


def _offset_of_last(batches: deque[tuple[int, ...]]) -> int:
    return batches[-1][0]


def replay_headers(segments: list[Segment], start_offset: int, end_offset: int, producers: ProducerState, ids_max: int) -> None:
    """Brings producer state from `start_offset` to `end_offset`."""
    replay = ProducerReplay(producers, ids_max)
    for segment in segments:
        first = segment.find(start_offset)
        if first is not None:
            replay_from(segment, first.position, end_offset, replay)
    replay.end()


def replay_from(segment: Segment, position: int, end_offset: int, replay: ProducerReplay) -> None:
    """Replays the batches of one segment from `position` on."""
    for place in segment.walk(position, segment.size):
        if place.base_offset >= end_offset:
            return
        header = BatchHeader.at(segment.header_at(place.position))
        if header.producer_id < 0:
            continue
        if header.attributes & _ORDER_MATTERS:
            replay.in_order(header, read_marker(segment.batch_at(place)) if header.is_control else None)
        else:
            replay.add(header.producer_id, header)
