"""Kafka's `<offset>.snapshot`: producer state as of an offset (exclusive), with the last batch of each producer only.

Our own resume points (`resume_points.py`) keep all five batches. This file is for Kafka's tools, for a Kafka broker that is given
the directory, and for directories that Kafka wrote.

Rows are made of packed entries, and entries of rows, by copying each byte column of many at once: to pack them one by one would
take ten times as long.
"""

import struct
from collections.abc import Iterator

from libs.commitlog.files.checked_content import CheckedContent
from libs.commitlog.model.errors import DirectoryDamaged
from libs.commitlog.producers.producer_entries import FIRST, HEAD, rows_of
from libs.commitlog.producers.producer_table import PackedProducers, ProducerTable

_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ROW = struct.Struct(">qhiqiqiq")
"""Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of the transaction."""
_LAST_OFFSET_AT = 14
_ROWS_AT_ONCE = 1000
_NEGATIVE = 0x80


def snapshot_content(producers: PackedProducers) -> CheckedContent:
    """The content of a snapshot, formatted while it is written."""
    return CheckedContent(_HEAD, 1, lambda: _pieces(producers))


def parse_snapshot(content: bytes, path: str) -> ProducerTable:
    """Raises DirectoryDamaged."""
    try:
        body = CheckedContent.body_of(content, _HEAD, 1)
        if body is None or len(body) < _COUNT.size or len(body) != _COUNT.size + _COUNT.unpack_from(body)[0] * _ROW.size:
            raise DirectoryDamaged(f"{path}: not a sound producer snapshot")
        entries: list[tuple[int, bytes]] = []
        step = _ROW.size * _ROWS_AT_ONCE
        for at in range(_COUNT.size, len(body), step):
            entries += _entries_of(bytes(body[at : at + step]))
        return ProducerTable.of_packed(entries)
    except struct.error as error:
        raise DirectoryDamaged(f"{path}: {error}") from error


def _pieces(producers: PackedProducers) -> Iterator[bytes]:
    yield _COUNT.pack(len(producers))
    for entries in producers.slices():
        yield from rows_of(entries, _columns)


def _columns(last: int) -> tuple[int, ...]:
    """Where a packed entry has its id and epoch; sequence, offset and delta of its last batch; timestamp; coordinator epoch;
    first offset of its transaction."""
    return (*range(10), *range(last, last + 16), *range(14, 22), *range(10, 14), *range(22, 30))


def _entries_of(rows: bytes) -> Iterator[tuple[int, bytes]]:
    ids = [producer_id for (producer_id,) in struct.Struct(f">q{_ROW.size - 8}x").iter_unpack(rows)]
    if any(producer_id < 0 for producer_id in ids):
        raise struct.error("a negative producer id")
    if any(sign >= _NEGATIVE for sign in rows[_LAST_OFFSET_AT :: _ROW.size]):
        return zip(ids, map(_entry_of, _ROW.iter_unpack(rows)), strict=True)
    packed = bytearray(FIRST.size * len(ids))
    packed[HEAD.size - 1 :: FIRST.size] = b"\1" * len(ids)
    # where the row has: id and epoch, coordinator epoch, timestamp, first offset; sequence, offset and delta, timestamp
    sources = (*range(10), *range(34, 38), *range(26, 34), *range(38, 46), None, *range(10, 26), *range(26, 34))
    for column, source in enumerate(sources):
        if source is not None:
            packed[column :: FIRST.size] = rows[source :: _ROW.size]
    content = bytes(packed)
    return zip(ids, [content[at : at + FIRST.size] for at in range(0, len(content), FIRST.size)], strict=True)


def _entry_of(row: tuple[int, ...]) -> bytes:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first_offset = row
    head = producer_id, epoch, coordinator_epoch, timestamp, first_offset
    if offset < 0:
        return HEAD.pack(*head, 0)
    return FIRST.pack(*head, 1, sequence, offset, delta, timestamp)
