"""The fingerprint of rows: whether a repeated task has the rows that were committed, whatever their order is."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c

from services.pipeline.sink.columns import Numbers, RecordColumns, slices_of
from services.pipeline.transforms.partitioning import murmur2

MURMUR_BYTES_MAX = 32
"""Longer values take less time by a CRC for each than by a round of murmur2 for each four bytes of all."""
_MIX = np.uint64(0x9E3779B97F4A7C15)


def fingerprint(columns: RecordColumns, times_ms: Numbers, partitions: Numbers | None) -> int:
    """A sum over rows, modulo 2**64. It covers all of a row's key, value and headers, its own time, and the partition it names.

    `times_ms`: as the rows have them, and the same number for each row without one. `partitions`: None if no row names one.
    """
    mixed = np.zeros(len(times_ms), np.uint64)
    for numbers in (
        _content_numbers(columns.keys, columns.key_is_null),
        _content_numbers(columns.values, columns.value_is_null),
        _content_numbers(columns.headers),
        times_ms,
        partitions,
    ):
        if numbers is not None:
            mixed ^= numbers.astype(np.uint64)
            mixed *= _MIX
            mixed ^= mixed >> np.uint64(29)
    return int(mixed.sum(dtype=np.uint64))


def _content_numbers(column: pa.Array, is_null: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.uint64] | None:
    """Of each row's bytes. None: no row has more than one byte, as where no row has headers."""
    data, starts, lengths = slices_of(column)
    longest = int(lengths.max()) if len(lengths) else 0
    if is_null is None and longest <= 1:
        return None
    if longest <= MURMUR_BYTES_MAX:
        hashes = murmur2(data, starts, lengths)
    else:
        hashes = np.fromiter(map(crc32c, column.fill_null(b"").to_pylist()), np.uint32, len(column))
    known_lengths = lengths if is_null is None else np.where(is_null, -1, lengths)
    return (known_lengths.astype(np.uint64) << np.uint64(32)) | hashes
