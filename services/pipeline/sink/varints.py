"""Zig-zag varints of whole columns of numbers, as Kafka's records have them."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]
_LIMITS = np.array([1 << (7 * length) for length in range(1, 10)], np.uint64)


def zigzag(values: Numbers) -> npt.NDArray[np.uint64]:
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def sizes(encoded: npt.NDArray[np.uint64]) -> Numbers:
    """How many bytes each number takes, 1 to 10."""
    if len(encoded) and int(encoded.max()) < 1 << 7:
        return np.ones(len(encoded), np.int64)
    return np.searchsorted(_LIMITS, encoded, side="right") + 1


def put(output: npt.NDArray[np.uint8], positions: Numbers, encoded: npt.NDArray[np.uint64], lengths: Numbers) -> None:
    """Writes each number at its position. `lengths`: as `sizes` told."""
    for index in range(int(lengths.max()) if len(lengths) else 0):
        rows = np.flatnonzero(lengths > index)
        more = np.where(lengths[rows] > index + 1, 0x80, 0).astype(np.uint8)
        digits = ((encoded[rows] >> np.uint64(7 * index)) & np.uint64(0x7F)).astype(np.uint8)
        output[positions[rows] + index] = digits | more
