"""The four codecs of Kafka, with a bound on what comes out: a batch of 1 MB may claim to hold 1 TB.

Codec numbers are bits 0-2 of a batch's attributes. Snappy comes in xerial framing (Java) or raw (some older clients), gzip may
have several members, lz4 and zstd are their own frame formats.
"""

import struct
import zlib
from collections.abc import Iterator

import cramjam

from libs.wire.record_batches.batch_layout import Codec

Buffer = bytes | bytearray | memoryview

DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024
"""The most bytes that one batch may hold when decompressed."""


class DecompressionTooLarge(Exception):
    """The output would pass the caller's bound."""


class DecompressionFailed(Exception):
    """The input is not what its codec says."""


_PIECE = 64 * 1024
_GROWTH = 8
"""The factor by which a prefix grows. What is decompressed again because of it is a seventh of the whole."""

LZ4_FAST_LEVEL = 9
"""Kafka's default level, for which it uses the fast compressor. All others are levels of the slower one, whose highest is 12."""
ZSTD_DEFAULT_LEVEL = 3

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16  # magic, version, compatible version
_XERIAL_BLOCK = 32 * 1024
_U32 = struct.Struct(">I")
# The error of a codec that writes into a fixed buffer when the buffer is too small. Any other error is corruption.
_OUTPUT_FULL = "failed to write whole buffer"


def decompress(codec: int, data: Buffer, max_bytes: int) -> Buffer:
    """The decompressed content of `data`, at most `max_bytes`. Raises DecompressionTooLarge or DecompressionFailed, never
    anything else."""
    if codec == Codec.NONE:
        if len(data) > max_bytes:
            raise DecompressionTooLarge(f"{len(data)} bytes are more than {max_bytes}")
        return data
    if codec == Codec.GZIP:
        return _gunzip(data, max_bytes)
    if codec == Codec.SNAPPY:
        return _unsnappy(data, max_bytes)
    if codec == Codec.LZ4 or codec == Codec.ZSTD:
        return _into_growing_buffer(codec, data, max_bytes)
    raise DecompressionFailed(f"unknown codec {codec}")


def decompressed_pieces(codec: int, data: Buffer, max_bytes: int) -> Iterator[memoryview]:
    """The decompressed content of `data` in pieces, each made when it is asked for. A reader that stops early saves the rest.

    Raises as `decompress` does, when it comes to the place. Raw snappy is one piece, at most 22 times as large as its input. The
    whole of lz4 and zstd up to the reader's place is in memory: the prefix grows, since their library writes into one buffer.
    """
    if codec == Codec.GZIP:
        yield from _gunzip_pieces(data, max_bytes)
    elif codec == Codec.SNAPPY:
        yield from _unsnappy_pieces(data, max_bytes)
    elif codec == Codec.LZ4 or codec == Codec.ZSTD:
        yield from _growing_prefix(codec, data, max_bytes)
    else:
        yield memoryview(decompress(codec, data, max_bytes))


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`data` as clients expect it inside a batch of this codec. `level` is Kafka's for the codec, None its default."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        gzip = zlib.compressobj(-1 if level is None else level, wbits=31)
        return gzip.compress(data) + gzip.flush()
    if codec == Codec.SNAPPY:
        return _xerial(data)
    if codec == Codec.LZ4:
        fast = level is None or level == LZ4_FAST_LEVEL
        # Kafka's own reader refuses blocks that depend on each other.
        packer = cramjam.lz4.Compressor(level=0 if fast else level, block_linked=False)
        packer.compress(bytes(data))
        return bytes(packer.finish())
    if codec == Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=ZSTD_DEFAULT_LEVEL if level is None else level))
    raise ValueError(f"unknown codec {codec}")


def _gunzip(data: Buffer, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = max_bytes
    rest: Buffer = data
    while rest:
        member = zlib.decompressobj(wbits=31)
        try:
            part = member.decompress(rest, room + 1)
        except zlib.error as error:
            raise DecompressionFailed(str(error)) from error
        if len(part) > room:
            raise DecompressionTooLarge(f"gzip: more than {max_bytes} bytes")
        if not member.eof:
            raise DecompressionFailed("gzip: truncated")
        parts.append(part)
        room -= len(part)
        rest = member.unused_data
    return b"".join(parts)


def _gunzip_pieces(data: Buffer, max_bytes: int) -> Iterator[memoryview]:
    room = max_bytes
    rest: Buffer = data
    while rest:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            try:
                piece = member.decompress(rest, _PIECE)
            except zlib.error as error:
                raise DecompressionFailed(str(error)) from error
            room -= len(piece)
            if room < 0:
                raise DecompressionTooLarge(f"gzip: more than {max_bytes} bytes")
            rest = member.unconsumed_tail
            if not (piece or rest or member.eof):
                raise DecompressionFailed("gzip: truncated")
            yield memoryview(piece)
        rest = member.unused_data


def _unsnappy(data: Buffer, max_bytes: int) -> bytes:
    return b"".join(_unsnappy_pieces(data, max_bytes))


def _unsnappy_pieces(data: Buffer, max_bytes: int) -> Iterator[memoryview]:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield memoryview(_unsnappy_block(view, max_bytes))
        return
    room = max_bytes
    position = _XERIAL_HEADER
    while position < len(view):
        if position + 4 > len(view):
            raise DecompressionFailed("snappy: truncated block length")
        (length,) = _U32.unpack_from(view, position)
        position += 4
        if length > len(view) - position:
            raise DecompressionFailed("snappy: truncated block")
        part = _unsnappy_block(view[position : position + length], room)
        yield memoryview(part)
        room -= len(part)
        position += length


def _unsnappy_block(block: memoryview, room: int) -> bytes:
    try:
        length = int(cramjam.snappy.decompress_raw_len(block))
        if length > room:
            raise DecompressionTooLarge(f"snappy: a block of {length} bytes, {room} left")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise DecompressionFailed(f"snappy: {error}") from error


def _into_growing_buffer(codec: int, data: Buffer, max_bytes: int) -> memoryview:
    """Decompresses into a growing buffer. Neither frame format has to say how much it holds, so it tries a likely size and grows
    towards the bound."""
    decode = cramjam.lz4.decompress_into if codec == Codec.LZ4 else cramjam.zstd.decompress_into
    size = min(max_bytes, max(65_536, 4 * len(data)))
    while True:
        output = bytearray(size)
        try:
            return memoryview(output)[: decode(data, output)]
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise DecompressionFailed(f"{Codec(codec).name.lower()}: {error}") from error
            if size >= max_bytes:
                raise DecompressionTooLarge(f"{Codec(codec).name.lower()}: more than {max_bytes} bytes") from error
        size = min(max_bytes, 4 * size)


def _growing_prefix(codec: int, data: Buffer, max_bytes: int) -> Iterator[memoryview]:
    decode = cramjam.lz4.decompress_into if codec == Codec.LZ4 else cramjam.zstd.decompress_into
    done, size = 0, min(max_bytes, _PIECE)
    while True:
        output = bytearray(size)
        is_whole, end = True, size
        try:
            end = decode(data, output)
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise DecompressionFailed(f"{Codec(codec).name.lower()}: {error}") from error
            is_whole = False
        yield memoryview(output)[done:end]
        if is_whole:
            return
        if size >= max_bytes:
            raise DecompressionTooLarge(f"{Codec(codec).name.lower()}: more than {max_bytes} bytes")
        done, size = end, min(max_bytes, _GROWTH * size)


def _xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_MAGIC, _U32.pack(1), _U32.pack(1)]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts += (_U32.pack(len(block)), block)
    return b"".join(parts)
