"""Bytes in, frames out: whatever the chunking, whoever keeps a view, whatever a hostile length claims."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.wire.frames import GUESS_MAX, TRUSTED_CLAIM, BadFrame, ChunkPool, FrameReader, FrameTooLarge, is_free


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def feed(reader: FrameReader, data: bytes, at_most: int = 1 << 30) -> list[memoryview]:
    """Feeds data as a socket would: as much as fits, then drain."""
    frames: list[memoryview] = []
    rest = memoryview(data)
    while rest:
        nbytes = receive(reader, rest[:at_most])
        rest = rest[nbytes:]
        frames += reader.frames()
    return frames


def receive(reader: FrameReader, data: bytes | memoryview) -> int:
    buffer = reader.buffer()
    assert len(buffer) > 0
    nbytes = min(len(buffer), len(data))
    buffer[:nbytes] = data[:nbytes]
    reader.advance(nbytes)
    return nbytes


@settings(max_examples=150, deadline=None)
@given(
    bodies=st.lists(st.binary(max_size=300) | st.integers(0, 9000).map(lambda n: bytes([n % 251]) * n), max_size=30),
    reads=st.lists(st.integers(1, 5000), min_size=1, max_size=20),
    keep=st.booleans(),
)
def test_frames_come_out_whole_and_in_order_whatever_the_chunking(bodies: list[bytes], reads: list[int], keep: bool) -> None:
    reader = FrameReader(10_000, chunk_size=4096)
    rest = b"".join(map(frame, bodies))
    seen: list[memoryview | bytes] = []
    turn = 0
    while rest:
        rest = rest[receive(reader, rest[: reads[turn % len(reads)]]) :]
        turn += 1
        seen += reader.frames() if keep else map(bytes, reader.frames())
    assert [bytes(view) for view in seen] == bodies  # kept views were not written over either
    assert reader.pending == 0


@pytest.mark.parametrize("first", [0, 1, 100, 3000, 4000])
def test_a_frame_that_is_half_received_at_the_very_end_of_a_chunk_survives_the_move(first: int) -> None:
    second = bytes(range(1, 252)) * 20
    reader = FrameReader(10_000, chunk_size=4096)
    data = frame(bytes(first)) + frame(second)
    feed(reader, data[:4096])  # the chunk is full to its last byte, and the first frame's view is gone
    (view,) = feed(reader, data[4096:])
    assert view == second


def test_views_are_writable_so_that_offsets_can_be_patched_in_place() -> None:
    (view,) = feed(FrameReader(100), frame(b"abc"))
    view[0] = ord("x")
    assert bytes(view) == b"xbc"


def test_a_negative_length_is_refused() -> None:
    with pytest.raises(BadFrame):
        feed(FrameReader(100), struct.pack(">i", -1))


def test_a_length_above_the_maximum_is_refused_before_its_bytes_come() -> None:
    with pytest.raises(FrameTooLarge):
        feed(FrameReader(100), struct.pack(">i", 101))


def test_a_huge_claim_reserves_no_more_than_twice_what_came() -> None:
    reader = FrameReader(1 << 30)
    feed(reader, struct.pack(">i", 900_000_000))
    assert len(reader.buffer()) <= TRUSTED_CLAIM
    feed(reader, bytes(3 * TRUSTED_CLAIM))
    assert reader.pending == 3 * TRUSTED_CLAIM + 4
    assert len(reader.buffer()) <= reader.pending + TRUSTED_CLAIM


def test_a_claim_without_bytes_takes_no_more_memory_than_any_connection() -> None:
    reader = FrameReader(1 << 30)
    ordinary = len(FrameReader(1 << 30).buffer())
    feed(reader, struct.pack(">i", 90_000_000) + bytes(100))
    reader.buffer()  # the next read may be the end of the connection
    assert reader.held == ordinary
    feed(reader, bytes(20_000))
    assert len(reader.buffer()) > ordinary  # the claim is meant


def test_a_frame_larger_than_what_is_trusted_arrives_all_the_same() -> None:
    body = bytes(range(256)) * (5 * TRUSTED_CLAIM // 256) + b"tail"
    (view,) = feed(FrameReader(1 << 30), frame(body), at_most=200_000)
    assert view == body


def test_the_same_memory_is_used_again_when_nobody_looks_at_it() -> None:
    reader = FrameReader(100_000, chunk_size=16_384)
    chunks = set()
    for _ in range(50):
        (view,) = feed(reader, frame(bytes(9000)))
        chunks.add(id(view.obj))
        del view
    assert len(chunks) == 1


def test_large_frames_go_through_few_chunks() -> None:
    reader = FrameReader(10 << 20)
    chunks = set()
    for _ in range(20):
        (view,) = feed(reader, frame(bytes(1 << 20)), at_most=200_000)
        chunks.add(id(view.obj))
        del view
    assert len(chunks) <= 2


def test_a_kept_view_is_never_written_over() -> None:
    reader = FrameReader(100_000, chunk_size=16_384)
    kept = feed(reader, frame(b"k" * 5000))
    for number in range(200):
        feed(reader, frame(bytes([number]) * 3000))
    assert bytes(kept[0]) == b"k" * 5000


def test_it_says_what_the_incomplete_frame_claims() -> None:
    reader = FrameReader(1000)
    feed(reader, b"\0\0")
    assert (reader.pending, reader.next_frame_claims) == (2, None)
    feed(reader, b"\0\x09abc")
    assert (reader.pending, reader.next_frame_claims) == (7, 9)


def test_a_resting_reader_gives_its_memory_to_the_next() -> None:
    pool = ChunkPool()
    first, second = FrameReader(1000, pool=pool), FrameReader(1000, pool=pool)
    (view,) = feed(first, frame(b"one"))
    chunk = id(view.obj)
    del view
    first.rest()
    (view,) = feed(second, frame(b"two"))
    assert id(view.obj) == chunk
    feed(first, frame(b"and on it goes"))


def test_a_reader_with_half_a_frame_does_not_rest() -> None:
    reader = FrameReader(1000)
    feed(reader, frame(b"whole")[:6])
    reader.rest()
    (view,) = feed(reader, frame(b"whole")[6:])
    assert bytes(view) == b"whole"


def test_a_pool_hands_out_no_chunk_that_is_still_viewed_and_keeps_few() -> None:
    pool = ChunkPool(bytes_max=100_000)
    chunk = pool.take(50_000)
    view = memoryview(chunk)
    assert not is_free(chunk)
    pool.give(chunk)
    assert pool.take(50_000) is not chunk
    view.release()
    assert pool.take(50_000) is chunk
    given = [bytearray(50_000) for _ in range(5)]
    for each in given:
        pool.give(each)
    taken = [pool.take(50_000) for _ in given]
    assert sum(any(each is chunk for chunk in given) for each in taken) == 2


def test_a_frame_that_grows_takes_no_second_chunk() -> None:
    """Old and new would exist together: half as much again as the frame."""
    reader = FrameReader(1 << 30)
    body = bytes(range(256)) * (8 * TRUSTED_CLAIM // 256)
    rest = memoryview(frame(body))
    chunks: set[int] = set()
    while rest:
        buffer = reader.buffer()
        chunks.add(id(buffer.obj))
        nbytes = min(len(buffer), len(rest), 300_000)
        buffer[:nbytes] = rest[:nbytes]
        del buffer
        reader.advance(nbytes)
        rest = rest[nbytes:]
        for view in reader.frames():
            assert view == body
    assert len(chunks) == 1


def test_the_chunk_after_a_large_frame_is_not_as_large() -> None:
    """The large frame may wait for long, and nobody said that another one comes."""
    reader = FrameReader(1 << 30)
    kept = feed(reader, frame(bytes(30 << 20)))
    reader.buffer()
    assert reader.held <= GUESS_MAX
    assert len(kept[0]) == 30 << 20


def test_it_says_how_much_a_frame_needs_beside_the_usual_chunk() -> None:
    reader = FrameReader(1 << 20, chunk_size=4096)
    assert reader.needed == 0
    feed(reader, struct.pack(">i", 4092))
    assert reader.needed == 0
    feed(reader, bytes(4092) + struct.pack(">i", 4093) + b"a")
    assert reader.needed == 4097


def test_it_knows_whether_its_chunk_is_unused() -> None:
    reader = FrameReader(1000)
    assert not reader.is_unused, "it has none"
    (view,) = feed(reader, frame(b"one"))
    assert not reader.is_unused
    del view
    assert reader.is_unused
    feed(reader, frame(b"two")[:-1])
    assert not reader.is_unused
    (view,) = feed(reader, b"o")
    assert view == b"two"
