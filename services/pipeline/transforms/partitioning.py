"""The partition of each row, for whole columns at once: keys by murmur2 as Kafka's Java client does, rows without a key by their
content. The same row has the same partition in every attempt of its task."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Offsets: TypeAlias = npt.NDArray[np.int64]
Hashes: TypeAlias = npt.NDArray[np.uint32]

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_SAMPLE_BYTES = 16
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


def murmur2(data: Bytes, starts: Offsets, lengths: Offsets) -> Hashes:
    """The hash of each slice of `data`, as `org.apache.kafka.common.utils.Utils.murmur2` computes it."""
    hashes: Hashes = _SEED ^ lengths.astype(np.uint32)
    words = lengths >> 2
    # Rows with more words come first, so that each round works on a prefix.
    order = np.argsort(-words, kind="stable")
    sorted_words = words[order]
    rounds = int(sorted_words[0]) if len(order) else 0
    unaligned = _unaligned(data, "<u4") if rounds else data
    for word in range(rounds):
        rows = order[: int(np.searchsorted(-sorted_words, -word, side="left"))]
        k = unaligned[starts[rows] + 4 * word] * _M
        k ^= k >> np.uint32(24)
        hashes[rows] = hashes[rows] * _M ^ k * _M
    _mix_tails(hashes, data, starts + 4 * words, lengths & 3)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes


def partitions_of_hashes(hashes: Hashes, counts: Offsets | int) -> Offsets:
    """As `Utils.toPositive(hash) % count`. `counts`: of each row, or one number for all."""
    return (hashes & np.uint32(0x7FFF_FFFF)).astype(np.int64) % counts


def content_hashes(data: Bytes, starts: Offsets, lengths: Offsets, times_ms: Offsets) -> Hashes:
    """A hash of value and time, for rows without a key. It reads only the first and last 16 bytes of a value."""
    hashes = np.empty(len(lengths), np.uint32)
    short = np.flatnonzero(lengths < _SAMPLE_BYTES)
    hashes[short] = murmur2(data, starts[short], lengths[short])
    long = np.flatnonzero(lengths >= _SAMPLE_BYTES)
    if len(long):
        words, begins, ends = _unaligned(data, "<u8"), starts[long], starts[long] + lengths[long]
        mixed = lengths[long].astype(np.uint64)
        for positions in (begins, begins + 8, ends - 16, ends - 8):
            mixed = (mixed ^ words[positions]) * _FACTOR
            mixed ^= mixed >> _HALF
        hashes[long] = mixed.astype(np.uint32)
    return hashes ^ ((times_ms.astype(np.uint64) * _FACTOR) >> _HALF).astype(np.uint32)


def _unaligned(data: Bytes, number: str) -> npt.NDArray[Any]:
    """The number that begins at each byte. `data` has at least one."""
    return np.ndarray(shape=(len(data) - np.dtype(number).itemsize + 1,), dtype=number, buffer=data, strides=(1,))


def _mix_tails(hashes: Hashes, data: Bytes, starts: Offsets, lengths: Offsets) -> None:
    """The last one to three bytes of each slice that has them."""
    for length in (1, 2, 3):
        rows = np.flatnonzero(lengths == length)
        if len(rows):
            tails = sum(data[starts[rows] + index].astype(np.uint32) << np.uint32(8 * index) for index in range(length))
            hashes[rows] = (hashes[rows] ^ tails) * _M


def murmur2_of(key: bytes) -> int:
    """The hash of one key, as Kafka makes it positive."""
    data = np.frombuffer(key, np.uint8)
    return int(murmur2(data, np.zeros(1, np.int64), np.array([len(key)], np.int64))[0]) & 0x7FFF_FFFF
