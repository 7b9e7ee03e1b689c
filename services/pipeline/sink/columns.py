"""The columns of rows as the sink takes them: checked against what a record can hold, and ready to be encoded."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from services.pipeline.errors import SinkError
from services.pipeline.sink import varints

Numbers: TypeAlias = npt.NDArray[np.int64]
HEADER_WITHOUT_KEY = "a row has a header without a key: the value of a header may be null, its key may not"
NO_SEPARATOR = pa.scalar(b"", pa.large_binary())


@dataclass(frozen=True)
class RecordColumns:
    """Rows as columns. `keys`, `values`: large_binary. `headers`: each row's header count and headers as a record has them.

    `payload_bytes`: of key, value and headers of each row.
    """

    keys: pa.Array
    values: pa.Array
    headers: pa.Array
    timestamps_ms: Numbers
    key_lengths: Numbers
    value_lengths: Numbers
    key_is_null: npt.NDArray[np.bool_]
    value_is_null: npt.NDArray[np.bool_]
    payload_bytes: Numbers


def slices_of(array: pa.Array) -> tuple[npt.NDArray[np.uint8], Numbers, Numbers]:
    """The bytes of a large_binary column, and where each value lies in them: starts and lengths. A null has the length 0."""
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    lengths = np.diff(offsets)
    if array.null_count:
        lengths = np.where(is_null(array), 0, lengths)
    return data, offsets[:-1], lengths


def is_null(array: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False), dtype=np.bool_)


def record_columns(batch: pa.RecordBatch, now_ms: int) -> RecordColumns:
    """Rows that have the columns of `services.pipeline.sink.schema`. A row without a timestamp gets `now_ms`.

    Raises SinkError for a header without a key.
    """
    rows = batch.num_rows
    keys = _binary(batch, "key", rows)
    values = _binary(batch, "value", rows)
    headers = _headers(batch, rows)
    key_lengths, value_lengths, header_lengths = (slices_of(column)[2] for column in (keys, values, headers))
    return RecordColumns(
        keys,
        values,
        headers,
        times_ms(batch, now_ms),
        key_lengths,
        value_lengths,
        is_null(keys),
        is_null(values),
        key_lengths + value_lengths + header_lengths,
    )


def times_ms(batch: pa.RecordBatch, absent_ms: int) -> Numbers:
    """The timestamps of rows in milliseconds since the epoch."""
    if "timestamp" not in batch.schema.names:
        return np.full(batch.num_rows, absent_ms, np.int64)
    column = batch.column("timestamp")
    microseconds = pc.fill_null(column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64()), absent_ms * 1000)
    return np.asarray(microseconds.to_numpy(), np.int64) // 1000


def _binary(batch: pa.RecordBatch, name: str, rows: int) -> pa.Array:
    if name not in batch.schema.names:
        return pa.nulls(rows, pa.large_binary())
    column = batch.column(name)
    return column.cast(pa.large_string()).cast(pa.large_binary()) if _is_text(column) else column.cast(pa.large_binary())


def _is_text(column: pa.Array) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _headers(batch: pa.RecordBatch, rows: int) -> pa.Array:
    """Each row's headers: their number, then name and value of each. They may be encoded already. Raises SinkError."""
    if "headers" in batch.schema.names and pa.types.is_binary(batch.column("headers").type):
        if batch.column("headers").null_count:
            raise SinkError(HEADER_WITHOUT_KEY)
        return batch.column("headers").cast(pa.large_binary())
    if "headers" not in batch.schema.names or batch.column("headers").null_count == rows:
        return pa.repeat(pa.scalar(b"\x00", pa.large_binary()), rows)
    lists = batch.column("headers")
    counts = np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), np.int64)
    pairs = lists.flatten()
    if pairs.null_count or pairs.field(0).null_count:
        raise SinkError(HEADER_WITHOUT_KEY)
    names = pairs.field(0).cast(pa.large_string()).cast(pa.large_binary())
    contents = pairs.field(1).cast(pa.large_binary())
    content_lengths = np.where(is_null(contents), -1, slices_of(contents)[2])
    parts = (varint_column(slices_of(names)[2]), names, varint_column(content_lengths), contents)
    encoded = pc.binary_join_element_wise(*parts, NO_SEPARATOR, null_handling="replace", null_replacement=b"")
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int64())
    blobs = pc.binary_join(pa.ListArray.from_arrays(offsets.cast(pa.int32()), encoded), NO_SEPARATOR)
    return pc.binary_join_element_wise(varint_column(counts), blobs, NO_SEPARATOR)


def varint_column(values: Numbers) -> pa.Array:
    """Each number as a zig-zag varint."""
    encoded = varints.zigzag(values)
    lengths = varints.sizes(encoded)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    output = np.zeros(int(starts[-1]), np.uint8)
    varints.put(output, starts[:-1], encoded, lengths)
    return pa.Array.from_buffers(
        pa.large_binary(), len(values), [None, pa.py_buffer(starts.astype(np.int64)), pa.py_buffer(output)]
    )
