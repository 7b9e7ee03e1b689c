"""The frame reader, fed in pieces, beside a model that has the whole stream at once.

Byte 0: the greatest frame, the chunk size, whether views are kept, and how often the stream is repeated, so that short inputs
get beyond a chunk, too. Byte 1: the pieces in which the stream arrives, and the claim that is trusted, so that short streams
get beyond that as well. The rest is the stream.
"""

import struct
from collections.abc import Iterator

from libs.wire import frames
from libs.wire.frames import BadFrame, ChunkPool, FrameError, FrameReader, FrameTooLarge, is_free

_FRAMES_MAX = (16, 300, 1 << 20, 0x7FFF_FFFF)
_CHUNK_SIZES = (4_096, 16_384, 65_536, 524_288)
_PIECES = ((1,), (4, 1), (7, 3, 64), (4_096,), (1, 16_384), (65_536,), (3, 5, 2_000), (100_000,))
_TRUSTED_CLAIMS = (8_192, 12_288, 16_384, 65_536) * 3 + (8_192, frames.TRUSTED_CLAIM, 16_384, 65_536)
"""The gateway's is one of sixteen: to clear so much memory takes longer than all the rest."""
_REPEATED = (1, 1, 1, 1, 1, 3, 12, 60)
_STREAM_MAX = 12_288
"""What a repeated stream has at most: three of the smallest chunks."""
_SMALL_PIECES = 24
"""Turns after which the rest of the stream comes at once, so that an input takes no longer than others."""


def check(data: bytes) -> None:
    if len(data) < 2:
        return
    frame_max, chunk_size = _FRAMES_MAX[data[0] & 3], _CHUNK_SIZES[data[0] >> 2 & 3]
    stream = data[2:]
    if (times := _REPEATED[data[0] >> 5]) > 1:
        stream = (stream * times)[:_STREAM_MAX]
    usual, frames.TRUSTED_CLAIM = frames.TRUSTED_CLAIM, _TRUSTED_CLAIMS[data[1] >> 4]
    try:
        _check_stream(data, frame_max, chunk_size, stream)
    finally:
        frames.TRUSTED_CLAIM = usual


def _check_stream(data: bytes, frame_max: int, chunk_size: int, stream: bytes) -> None:
    are_kept = bool(data[0] & 16)
    reader = FrameReader(frame_max, chunk_size=chunk_size, pool=_pool(chunk_size))
    bodies, error = _frames_of(stream, frame_max)
    found: list[bytes] = []
    kept: list[memoryview] = []
    refused: type[FrameError] | None = None
    at = turn = 0
    pieces = _PIECES[data[1] & 7]
    while at < len(stream) and refused is None:
        buffer = reader.buffer()
        assert len(buffer) > 0
        size = pieces[turn % len(pieces)] if turn < _SMALL_PIECES else len(stream)
        piece = stream[at : at + min(len(buffer), size)]
        buffer[: len(piece)] = piece
        reader.advance(len(piece))
        at, turn = at + len(piece), turn + 1
        del buffer
        try:
            for body in reader.frames():
                found.append(bytes(body))
                if are_kept:
                    kept.append(body)
                del body
        except FrameError as raised:
            refused = type(raised)
        assert reader.held <= max(chunk_size, frames.TRUSTED_CLAIM, 2 * at) + 4_096, (reader.held, at)
        if data[1] & 8 and turn % 5 == 0:
            reader.rest()
    assert found == bodies, (len(found), len(bodies))
    assert refused is error, (refused, error)
    if are_kept:
        assert kept == bodies, "a view changed after it was handed out"
    if refused is None:
        assert reader.pending == len(stream) - sum(4 + len(body) for body in bodies)


_spares = [bytearray(_CHUNK_SIZES[-1])]
_WRITTEN_MAX = 32_768
"""The most of a chunk that one input writes."""


def _pool(chunk_size: int) -> ChunkPool:
    """A pool that has a chunk of the greatest size, which earlier inputs used. It holds zeros, as a new one does."""
    pool = ChunkPool()
    if chunk_size == _CHUNK_SIZES[-1]:
        if len(_spares[0]) != chunk_size or not is_free(_spares[0]):
            _spares[0] = bytearray(chunk_size)
        _spares[0][:_WRITTEN_MAX] = bytes(_WRITTEN_MAX)
        pool.give(_spares[0])
    return pool


def _frames_of(stream: bytes, frame_max: int) -> tuple[list[bytes], type[FrameError] | None]:
    bodies, at = [], 0
    while len(stream) - at >= 4:
        (length,) = struct.unpack_from(">i", stream, at)
        if length < 0:
            return bodies, BadFrame
        if length > frame_max:
            return bodies, FrameTooLarge
        if at + 4 + length > len(stream):
            break
        bodies.append(stream[at + 4 : at + 4 + length])
        at += 4 + length
    return bodies, None


def seeds() -> Iterator[bytes]:
    sizes = ((0,), (1, 16, 0), (300, 12, 4_096), (20_000, 5, 300), (16,) * 40)
    for choice, of_stream in enumerate(sizes):
        stream = b"".join(struct.pack(">i", size) + bytes(index % 251 for index in range(size)) for size in of_stream)
        for pieces in range(0, 16, 3):
            yield bytes((choice * 7 % 32 | 3, pieces | pieces << 4 & 240)) + stream
        yield bytes((choice | 7 << 5, choice)) + stream[:300]
    yield bytes((3, 3)) + struct.pack(">i", 100_000_000) + bytes(20_000)
    yield bytes((2, 0)) + struct.pack(">i", -1)
