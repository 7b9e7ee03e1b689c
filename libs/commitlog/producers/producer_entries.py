"""The entry of one producer: its values, and their packed form.

A partition may know a million producers, so that memory holds an entry packed, as a resume point holds it on disk. A save then
copies bytes, and formats nothing.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

CACHED_BATCHES = 5
NO_OFFSET = -1

HEAD = struct.Struct(">qhiqqb")
"""Producer id, epoch, coordinator epoch, last timestamp, first offset of the open transaction, number of batches."""
BATCH = struct.Struct(">iqiq")
FIRST = struct.Struct(HEAD.format + BATCH.format[1:])
"""An entry with one batch."""
AFTER_ID = struct.Struct(">hiqqb")
"""What follows the producer id."""
ID_SIZE = 8
UNPACK = {
    HEAD.size + count * BATCH.size: struct.Struct(HEAD.format + count * BATCH.format[1:]).unpack
    for count in range(CACHED_BATCHES + 1)
}
"""The reader of a packed entry, by its size. Fields of batches begin at `BATCH_FIELDS`, four for each."""
BATCH_FIELDS = 6
FIRST_BATCH_AT, SECOND_BATCH_AT = HEAD.size, HEAD.size + BATCH.size
PACK_AFTER = tuple(
    [struct.Struct(f"{HEAD.format}{count * BATCH.size}s{BATCH.format[1:]}").pack for count in range(CACHED_BATCHES)]
)
"""The writer of an entry from its head, older batches that are packed, and one new batch, by the number of older ones."""
LAST_SEQUENCE = struct.Struct(">i")

_FIRST_OFFSET = struct.Struct(">q")
_FIRST_OFFSET_AT = 22
_COUNT_AT = HEAD.size - 1
_NEGATIVE = 0x80
_NO_BATCH = BATCH.pack(-1, -1, 0, -1)
_RUN = 1000


class CachedBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry(NamedTuple):
    """The state of one producer. `batches`: oldest first, at most five."""

    epoch: int
    batches: tuple[CachedBatch, ...]
    coordinator_epoch: int
    last_timestamp: int
    transaction_first_offset: int  # NO_OFFSET: no transaction is open


def pack_entry(producer_id: int, entry: ProducerEntry) -> bytes:
    fields = (entry.epoch, entry.coordinator_epoch, entry.last_timestamp, entry.transaction_first_offset)
    head = HEAD.pack(producer_id, *fields, len(entry.batches))
    return b"".join([head, *[BATCH.pack(*batch) for batch in entry.batches]])


def unpack_entry(packed: bytes) -> ProducerEntry:
    _, epoch, coordinator_epoch, timestamp, first_offset, _, *fields = UNPACK[len(packed)](packed)
    batches = tuple([CachedBatch._make(fields[at : at + 4]) for at in range(0, len(fields), 4)])
    return ProducerEntry(epoch, batches, coordinator_epoch, timestamp, first_offset)


def first_offset_of(packed: bytes) -> int:
    """The first offset of the producer's open transaction; NO_OFFSET if none is open."""
    first: int = _FIRST_OFFSET.unpack_from(packed, _FIRST_OFFSET_AT)[0]
    return first


def is_open(packed: bytes) -> bool:
    """Whether the producer has a transaction open."""
    return packed[_FIRST_OFFSET_AT] < _NEGATIVE


def rows_of(entries: list[bytes], columns: Callable[[int], Sequence[int]]) -> Iterator[bytes]:
    """Rows of chosen bytes of packed entries, in no order. `columns`: the positions of these bytes in an entry, by the position
    of its last batch; an entry without batches gets an empty one.

    Each byte column of many entries is copied at once: to pack rows one by one would take ten times as long.
    """
    by_size: dict[int, list[bytes]] = {}
    for entry in entries:
        if len(entry) == HEAD.size:
            entry += _NO_BATCH
        by_size.setdefault(len(entry), []).append(entry)
    for size, same in by_size.items():
        joined, sources = b"".join(same), columns(size - BATCH.size)
        rows = bytearray(len(sources) * len(same))
        for column, source in enumerate(sources):
            rows[column :: len(sources)] = joined[source::size]
        yield bytes(rows)


def split_entries(content: bytes, position: int, count: int) -> tuple[list[tuple[int, bytes]], int]:
    """The packed entries in `content`, each with its producer id, and the position behind them. Raises struct.error.

    Entries of one size stand together, since most producers of a large state have the same number of batches. A run of them is
    split at once.
    """
    entries: list[tuple[int, bytes]] = []
    while len(entries) < count:
        (batches,) = struct.unpack_from(">b", content, position + _COUNT_AT)
        size = HEAD.size + batches * BATCH.size
        if size not in UNPACK:
            raise struct.error(f"{batches} batches of a producer")
        wanted = min(count - len(entries), _RUN)
        numbers = content[position + _COUNT_AT : position + size * wanted : size]
        run = len(numbers) - len(numbers.lstrip(content[position + _COUNT_AT : position + HEAD.size]))
        end = position + run * size
        if end > len(content):
            raise struct.error(f"{len(content)} bytes are too few for {count} producers")
        if max(content[position:end:size]) >= _NEGATIVE:
            raise struct.error("a negative producer id")
        ids = struct.Struct(f">q{size - ID_SIZE}x").iter_unpack(content[position:end])
        packed = [content[at : at + size] for at in range(position, end, size)]
        entries += zip(chain.from_iterable(ids), packed, strict=True)
        position = end
    return entries, position
