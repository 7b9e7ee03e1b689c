"""Turns arriving bytes into whole frames (`u32 length | body`). No I/O: ask for a buffer, fill it, drain it.

Kafka connections and RPC connections share it. Bytes are received where they stay: a frame is a writable view of the chunk
that the socket wrote into, and a chunk is used again once nothing views it any more.
"""

import struct
from collections.abc import Iterator

LENGTH = struct.Struct(">i")
TRUSTED_CLAIM = 4 << 20
"""A claimed length up to this is allocated at once; beyond, room grows only as bytes arrive (a claim costs the peer nothing)."""
SMALLEST_READ = 16_384
KEPT_BYTES = 8 << 20


class FrameError(Exception):
    """The byte stream cannot be cut into frames any further: close the connection."""


class FrameTooLarge(FrameError):
    pass


class BadFrame(FrameError):
    pass


class ChunkPool:
    """Receive chunks that nobody reads into. Readers may share one, so that an idle connection holds no memory.

    A chunk may still be viewed by a slow consumer; it then waits here until `take` finds it free, and is forgotten when
    too many wait.
    """

    __slots__ = ("_bytes", "_chunks", "_kept")

    def __init__(self, kept: int = KEPT_BYTES) -> None:
        self._chunks: list[bytearray] = []
        self._bytes = 0
        self._kept = kept

    def take(self, size: int) -> bytearray:
        """A chunk of at least `size` bytes, preferably one used before: touching fresh pages costs more than the copy."""
        for index in range(len(self._chunks) - 1, -1, -1):
            chunk = self._chunks[index]
            # Not far larger either: a trickle of small frames must not pin a chunk that a big one once needed.
            if size <= len(chunk) <= 4 * size and is_free(chunk):
                del self._chunks[index]
                self._bytes -= len(chunk)
                return chunk
        return bytearray(size)

    def clear(self) -> None:
        """Forgets all, when nobody has received for a while."""
        self._chunks.clear()
        self._bytes = 0

    def give(self, chunk: bytearray) -> None:
        self._chunks.append(chunk)
        self._bytes += len(chunk)
        while self._bytes > self._kept:
            self._bytes -= len(self._chunks.pop(0))  # the longest unused; its viewers keep it alive


def is_free(chunk: bytearray) -> bool:
    """Whether nothing views the chunk: a bytearray refuses to change its size while it is exported. Costs no allocation."""
    try:
        last = chunk.pop()
    except BufferError:
        return False
    chunk.append(last)  # it may hold the last byte of half a frame
    return True


class FrameReader:
    """Feed: `buffer()`, receive into it, `advance(n)`. Drain: `frames()`, after every advance.

    Frames are handed out in order, each once; views may be kept for as long as needed. `FrameError` is final.
    """

    __slots__ = ("_chunk", "_chunk_size", "_end", "_largest", "_max_frame", "_pool", "_start", "_view")

    def __init__(self, max_frame: int, *, chunk_size: int = 524_288, pool: ChunkPool | None = None) -> None:
        self._max_frame = max_frame
        self._chunk_size = chunk_size
        self._pool = pool if pool is not None else ChunkPool()
        self._chunk: bytearray | None = None
        self._view = memoryview(b"")
        self._start = 0  # of what was not handed out yet
        self._end = 0  # of what arrived
        self._largest = 0  # frame in this chunk, length included: the guess for the next chunk

    @property
    def pending(self) -> int:
        """Bytes of the incomplete frame."""
        return self._end - self._start

    @property
    def held(self) -> int:
        """Bytes of memory that receiving takes, whatever has arrived."""
        return len(self._chunk) if self._chunk is not None else 0

    @property
    def next_frame_claims(self) -> int | None:
        """The length that the incomplete frame claims; None before it is known."""
        if self._chunk is None or self._end - self._start < 4:
            return None
        length: int = LENGTH.unpack_from(self._chunk, self._start)[0]
        return length

    def buffer(self) -> memoryview:
        """Where to receive next; never empty. Valid until `advance`."""
        chunk = self._chunk
        if chunk is None:
            chunk = self._change_chunk(max(self._chunk_size, self._largest))
        start, end = self._start, self._end
        if start == end:
            if start:
                # Everything was handed out. If nobody looks at it any more, start over in the same, cache-warm memory.
                self._view = memoryview(b"")
                if is_free(chunk):
                    self._start = self._end = end = 0
                    if len(chunk) > self._chunk_size and 2 * self._largest < len(chunk):
                        chunk = self._change_chunk(self._chunk_size)
                    self._largest = 0
                elif len(chunk) - end < max(SMALLEST_READ, self._largest):
                    chunk = self._change_chunk(max(self._chunk_size, self._largest))
                    end = 0
                self._view = memoryview(chunk)
        else:
            claim = self.next_frame_claims
            wanted = SMALLEST_READ if claim is None else min(4 + claim, TRUSTED_CLAIM)
            if end == len(chunk) or (start + wanted > len(chunk) and not self._is_only_a_claim(chunk, wanted)):
                self._make_room(chunk, claim)
                end = self._end
        return self._view[end:]

    def advance(self, nbytes: int) -> None:
        self._end += nbytes

    def frames(self) -> Iterator[memoryview]:
        """Bodies of the frames that are complete."""
        chunk, view, end = self._chunk, self._view, self._end
        start = self._start
        while end - start >= 4 and chunk is not None:
            length: int = LENGTH.unpack_from(chunk, start)[0]
            if length < 0:
                raise BadFrame(f"negative frame length {length}")
            if length > self._max_frame:
                raise FrameTooLarge(f"frame of {length} bytes; the most is {self._max_frame}")
            body = start + 4
            stop = body + length
            if stop > end:
                break
            if stop - start > self._largest:
                self._largest = stop - start
            self._start = start = stop
            yield view[body:stop]

    def rest(self) -> None:
        """Gives the chunk back when no frame is half received. For owners of many idle connections."""
        if self._chunk is not None and self._start == self._end:
            self._view = memoryview(b"")
            self._pool.give(self._chunk)
            self._chunk = None
            self._start = self._end = 0

    def close(self) -> None:
        """Lets go of the chunk, and of the half frame in it. For owners that may outlive their connection."""
        self._view = memoryview(b"")
        self._chunk = None
        self._start = self._end = 0

    def _is_only_a_claim(self, chunk: bytearray, wanted: int) -> bool:
        """Of a large frame, little has come yet, and the next read may as well tell the end of the connection. Hundreds that hang
        up together, each having claimed much, would cost seconds of clearing memory that nothing is ever written to."""
        return wanted > self._chunk_size and self._end - self._start < SMALLEST_READ <= len(chunk) - self._end

    def _make_room(self, chunk: bytearray, claim: int | None) -> None:
        """Moves the incomplete frame to where it can grow: the start of this chunk if nobody views it, else another chunk."""
        arrived = self._end - self._start
        # A hostile length must not make us hold 2 GiB: beyond what is trusted, at most twice what the peer really sent.
        room = self._chunk_size if claim is None else min(4 + claim, max(TRUSTED_CLAIM, 2 * arrived))
        if self._start and room <= len(chunk):
            self._view = memoryview(b"")
            free = is_free(chunk)
            self._view = view = memoryview(chunk)
            if free:
                view[:arrived] = view[self._start : self._end]
                self._start, self._end = 0, arrived
                return
        self._change_chunk(max(room, self._chunk_size))

    def _change_chunk(self, size: int) -> bytearray:
        """Goes on in a chunk of at least `size` bytes, with the bytes of the incomplete frame moved to its start."""
        pending = self._end - self._start
        rounded = -(-size // 4096) * 4096
        chunk = self._pool.take(rounded)
        view = memoryview(chunk)
        if pending:
            view[:pending] = self._view[self._start : self._end]
        self._view = view
        if self._chunk is not None:
            self._pool.give(self._chunk)
        self._chunk = chunk
        self._start, self._end = 0, pending
        self._largest = 0
        return chunk
