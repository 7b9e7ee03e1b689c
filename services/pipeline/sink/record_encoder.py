"""Record batches from Arrow columns. Numbers are encoded by numpy and bytes are joined by Arrow: no loop runs over records."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from libs.wire.record_batches.batch_layout import CRC_START, HEADER, HEADER_SIZE, LENGTH_END, TRANSACTIONAL
from libs.wire.record_batches.compression import compress
from services.pipeline.sink import varints
from services.pipeline.sink.columns import NO_SEPARATOR, Numbers, RecordColumns, slices_of

FIXED_BYTES_MAX = 40
"""Upper bound of a record's bytes beside key, value and headers: attributes, length, two deltas, three lengths."""


class RecordBatch(NamedTuple):
    """The records of one batch, before its producer and sequence are known."""

    partition: int  # an index into the target partitions that the rows were sorted by
    body: memoryview
    record_count: int
    base_timestamp: int
    max_timestamp: int


@dataclass(frozen=True)
class BatchProducer:
    """Who writes a batch: the producer that InitProducerId named."""

    producer_id: int
    producer_epoch: int


def encode(columns: RecordColumns, partitions: Numbers, bytes_max: int) -> Iterator[RecordBatch]:
    """The batches of rows that are sorted by partition. A batch has at most `bytes_max` bytes, or a single record."""
    if not len(partitions):
        return
    batch_numbers = _assign_batches(partitions, columns.payload_bytes + FIXED_BYTES_MAX, bytes_max - HEADER_SIZE)
    firsts = np.flatnonzero(np.diff(batch_numbers, prepend=-1))
    first_of_row = firsts[batch_numbers]
    timestamps = columns.timestamps_ms
    deltas = timestamps - timestamps[first_of_row]
    body, ends = _join_records(columns, deltas, np.arange(len(partitions)) - first_of_row)
    last_rows = np.append(firsts[1:], len(partitions)) - 1
    latest = np.maximum.reduceat(timestamps, firsts)
    starts = ends[firsts]
    for number, first in enumerate(firsts):
        last = int(last_rows[number])
        yield RecordBatch(
            int(partitions[first]),
            body[int(starts[number]) : int(ends[last + 1])],
            last + 1 - int(first),
            int(timestamps[first]),
            int(latest[number]),
        )


def frame_batch(batch: RecordBatch, producer: BatchProducer, base_sequence: int, codec: int) -> list[Any]:
    """The buffers of a transactional batch as Produce carries it."""
    body = batch.body if codec == 0 else memoryview(compress(codec, batch.body))
    fields = [
        0,
        HEADER_SIZE + len(body) - LENGTH_END,
        -1,
        2,
        0,
        codec | TRANSACTIONAL,
        batch.record_count - 1,
        batch.base_timestamp,
        batch.max_timestamp,
        producer.producer_id,
        producer.producer_epoch,
        base_sequence,
        batch.record_count,
    ]
    fields[4] = crc32c(body, crc32c(HEADER.pack(*fields)[CRC_START:]))
    return [HEADER.pack(*fields), body]


def _assign_batches(partitions: Numbers, record_bytes: Numbers, bytes_max: int) -> Numbers:
    """The batch of each row, from 0 on: a new one begins with a partition, and where the next record would not fit."""
    ends = np.cumsum(record_bytes)
    bounds = np.append(np.flatnonzero(np.diff(partitions)) + 1, len(partitions))
    begins = []
    row = 0
    for bound in bounds:
        while row < bound:
            begins.append(row)
            before = int(ends[row - 1]) if row else 0
            fitting = int(np.searchsorted(ends, before + bytes_max, side="right"))
            row = min(int(bound), max(row + 1, fitting))
    marks = np.zeros(len(partitions), np.int64)
    marks[begins[1:]] = 1
    return np.cumsum(marks)


def _join_records(columns: RecordColumns, timestamp_deltas: Numbers, offset_deltas: Numbers) -> tuple[memoryview, Numbers]:
    """The records one after another, and where each begins (one entry more than rows)."""
    key_lengths = np.where(columns.key_is_null, -1, columns.key_lengths)
    value_lengths = np.where(columns.value_is_null, -1, columns.value_lengths)
    numbers = [varints.zigzag(column) for column in (timestamp_deltas, offset_deltas, key_lengths, value_lengths)]
    lengths = [varints.sizes(number) for number in numbers]
    content = 1 + sum(lengths) + columns.payload_bytes
    total = varints.zigzag(content)
    total_lengths = varints.sizes(total)
    before_key = _columns_of_bytes(
        [(total, total_lengths), None, (numbers[0], lengths[0]), (numbers[1], lengths[1]), (numbers[2], lengths[2])]
    )
    before_value = _columns_of_bytes([(numbers[3], lengths[3])])
    parts = [before_key, columns.keys, before_value, columns.values, columns.headers]
    joined = pc.binary_join_element_wise(*parts, NO_SEPARATOR, null_handling="replace", null_replacement=b"")
    data, starts, sizes = slices_of(joined)
    return memoryview(data), np.append(starts, starts[-1] + sizes[-1])


def _columns_of_bytes(fields: Sequence[tuple[Any, Numbers] | None]) -> pa.Array:
    """A binary column of encoded numbers, one after another. None: a zero byte (a record's attributes)."""
    rows = len(next(field for field in fields if field is not None)[1])
    widths = [np.ones(rows, np.int64) if field is None else field[1] for field in fields]
    row_sizes = np.sum(widths, axis=0)
    starts = np.concatenate([[0], np.cumsum(row_sizes)])
    output = np.zeros(int(starts[-1]), np.uint8)
    positions = starts[:-1].copy()
    for field, width in zip(fields, widths, strict=True):
        if field is not None:
            varints.put(output, positions, *field)
        positions += width
    return pa.Array.from_buffers(pa.large_binary(), rows, [None, pa.py_buffer(starts.astype(np.int64)), pa.py_buffer(output)])
