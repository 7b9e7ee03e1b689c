"""The reader that turns arriving bytes into whole frames (`u32 length | body`). No I/O: ask for a buffer, fill it, drain it.

Kafka connections and RPC connections share it. Bytes are not copied after they are received: a frame is a writable view of the
chunk that the socket wrote into. A chunk is used again once it has no views.
"""

import struct
from collections.abc import Iterator

LENGTH = struct.Struct(">i")
TRUSTED_CLAIM = 4 << 20
"""The largest claimed length for which room is allocated at once. Beyond it, room grows only as bytes arrive, since a claim costs
the peer nothing."""
SMALLEST_READ = 16_384
POOL_BYTES_MAX = 8 << 20
GUESS_MAX = 2 << 20
"""The largest chunk that is taken for the next frame because the last one was as large."""


class FrameError(Exception):
    """The byte stream cannot be cut into frames any further: close the connection."""


class FrameTooLarge(FrameError):
    pass


class BadFrame(FrameError):
    pass


class ChunkPool:
    """Receive chunks that are not in use. Readers may share a pool, so that an idle connection holds no memory.

    A slow consumer may still view a chunk. The chunk then waits here until `take` finds it free, and is dropped when too many
    wait.
    """

    __slots__ = ("_bytes", "_bytes_max", "_chunks")

    def __init__(self, bytes_max: int = POOL_BYTES_MAX) -> None:
        self._chunks: list[bytearray] = []
        self._bytes = 0
        self._bytes_max = bytes_max

    def take(self, size: int) -> bytearray:
        """A chunk of at least `size` bytes, preferably one used before: touching fresh pages costs more than the copy."""
        for index in range(len(self._chunks) - 1, -1, -1):
            chunk = self._chunks[index]
            # Nor far larger: a trickle of small frames must not hold a chunk that one large frame needed.
            if size <= len(chunk) <= 4 * size and is_free(chunk):
                del self._chunks[index]
                self._bytes -= len(chunk)
                return chunk
        return bytearray(size)

    def clear(self) -> None:
        """Drops all chunks. To be called when no bytes have arrived for a while."""
        self._chunks.clear()
        self._bytes = 0

    def give(self, chunk: bytearray) -> None:
        self._chunks.append(chunk)
        self._bytes += len(chunk)
        while self._bytes > self._bytes_max:
            self._bytes -= len(self._chunks.pop(0))  # the longest unused; its viewers keep it alive


def is_free(chunk: bytearray) -> bool:
    """Whether no view of the chunk is left: a bytearray refuses to change its size while it has any. This allocates nothing."""
    try:
        last = chunk.pop()
    except BufferError:
        return False
    chunk.append(last)  # it may hold the last byte of half a frame
    return True


class FrameReader:
    """A reader of frames. To feed it: `buffer()`, receive into that, `advance(n)`. To drain it: `frames()`, after every advance.

    Frames are handed out in order, each once. Their views may be kept for as long as needed. `FrameError` is final.
    """

    __slots__ = ("_chunk", "_chunk_size", "_end", "_largest", "_max_frame", "_pool", "_start", "_view")

    def __init__(self, max_frame: int, *, chunk_size: int = 524_288, pool: ChunkPool | None = None) -> None:
        self._max_frame = max_frame
        self._chunk_size = chunk_size
        self._pool = pool if pool is not None else ChunkPool()
        self._chunk: bytearray | None = None
        self._view = memoryview(b"")
        self._start = 0  # of the bytes that were not handed out yet
        self._end = 0  # of the bytes that arrived
        self._largest = 0  # the largest frame in this chunk, length included: the guess for the next chunk

    def allow(self, max_frame: int) -> None:
        """Allows longer frames from now on."""
        self._max_frame = max_frame

    @property
    def pending(self) -> int:
        """Bytes of the incomplete frame."""
        return self._end - self._start

    @property
    def held(self) -> int:
        """Bytes of memory that this reader takes, however many have arrived."""
        return len(self._chunk) if self._chunk is not None else 0

    @property
    def needed(self) -> int:
        """Bytes of the whole incomplete frame, if they are more than a chunk of the usual size. Else 0."""
        claim = self.next_frame_claims
        return 4 + claim if claim is not None and 4 + claim > self._chunk_size else 0

    @property
    def missing(self) -> int:
        """Bytes that the incomplete frame lacks, or its length. At least 1."""
        claim = self.next_frame_claims
        return (4 if claim is None else 4 + claim) - self.pending

    @property
    def is_unused(self) -> bool:
        """Whether no frame is incomplete, and no view of a frame is left in the chunk."""
        chunk = self._chunk
        if chunk is None or self._start != self._end:
            return False
        self._view = memoryview(b"")
        free = is_free(chunk)
        self._view = memoryview(chunk)
        return free

    @property
    def next_frame_claims(self) -> int | None:
        """The length that the incomplete frame claims; None before it is known."""
        if self._chunk is None or self._end - self._start < 4:
            return None
        length: int = LENGTH.unpack_from(self._chunk, self._start)[0]
        return length

    def buffer(self) -> memoryview:
        """The buffer to receive into next; never empty. Valid until `advance`."""
        chunk = self._chunk
        if chunk is None:
            chunk = self._change_chunk(self._guess())
        start, end = self._start, self._end
        if start == end:
            if start:
                # Everything was handed out. If no view is left, start over in the same memory, which is in the CPU's cache.
                self._view = memoryview(b"")
                if is_free(chunk):
                    self._start = self._end = end = 0
                    if len(chunk) > self._chunk_size and 2 * self._largest < len(chunk):
                        chunk = self._change_chunk(self._chunk_size)
                    self._largest = 0
                elif len(chunk) - end < max(SMALLEST_READ, min(self._largest, GUESS_MAX)):
                    chunk = self._change_chunk(self._guess())
                    end = 0
                self._view = memoryview(chunk)
        else:
            claim = self.next_frame_claims
            needed = SMALLEST_READ if claim is None else min(4 + claim, TRUSTED_CLAIM)
            if end == len(chunk) or (start + needed > len(chunk) and not self._is_only_a_claim(chunk, needed)):
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
        """Gives the chunk back when no frame is half received. For owners with many idle connections."""
        if self._chunk is not None and self._start == self._end:
            self._view = memoryview(b"")
            self._pool.give(self._chunk)
            self._chunk = None
            self._start = self._end = 0

    def close(self) -> None:
        """Drops the chunk, and the half frame in it. For owners that may outlive their connection."""
        self._view = memoryview(b"")
        self._chunk = None
        self._start = self._end = 0

    def _guess(self) -> int:
        """The size of the next chunk. A frame beyond the guess grows as it arrives: the last frame may still be in use, and then
        the next one must not take as much again before its first byte."""
        return max(self._chunk_size, min(self._largest, GUESS_MAX))

    def _is_only_a_claim(self, chunk: bytearray, needed: int) -> bool:
        """Whether a large frame has only been claimed so far.

        The next read may as well be the end of the connection. Hundreds of connections that end together, each after a large
        claim, would cost seconds of clearing memory that is never used.
        """
        return needed > self._chunk_size and self._end - self._start < SMALLEST_READ <= len(chunk) - self._end

    def _make_room(self, chunk: bytearray, claim: int | None) -> None:
        """Moves the incomplete frame to a place where it can grow: the start of this chunk if no view of it is left, else another
        chunk."""
        arrived = self._end - self._start
        # A hostile length must not make us hold 2 GiB. Beyond the trusted length, room is at most twice the bytes that arrived.
        room = self._chunk_size if claim is None else min(4 + claim, max(TRUSTED_CLAIM, 2 * arrived))
        if self._start and room <= len(chunk):
            self._view = memoryview(b"")
            free = is_free(chunk)
            self._view = view = memoryview(chunk)
            if free:
                view[:arrived] = view[self._start : self._end]
                self._start, self._end = 0, arrived
                return
        elif not self._start and room > len(chunk) >= self._chunk_size:
            # The frame is alone in the chunk. For large ones the kernel moves pages, and old and new never exist together.
            self._view = memoryview(b"")
            if is_free(chunk):
                chunk += bytes(room - len(chunk))
            self._view = memoryview(chunk)
            if len(chunk) >= room:
                return
        self._change_chunk(max(room, self._chunk_size))

    def _change_chunk(self, size: int) -> bytearray:
        """Continues in a chunk of at least `size` bytes, with the bytes of the incomplete frame moved to its start."""
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
