"""The instruments of `python -m tests.bench.overheads`: sequences of batches, walks over a topic, and intervals."""

import struct

import pytest

from libs.wire.messages.fetch import FetchedPartition, FetchResponseWriter
from libs.wire.record_batches.batches import BatchHeader, ProduceLimits, validate_produce
from tests.bench import frames
from tests.bench.overheads import interval

TOPIC, NOW_MS = "t", 1_700_000_000_000


def batch_at(offset: int, records: int) -> bytes:
    batch = bytearray(frames.record_batch(records, 100, NOW_MS))
    struct.pack_into(">q", batch, 0, offset)
    return bytes(batch)


def answer(records: bytes, aborted: list[tuple[int, int]] | None) -> bytes:
    writer: FetchResponseWriter[bytes] = FetchResponseWriter(frames.FETCH_VERSION, 7, 1)
    writer.begin_topic(TOPIC, None, 1)
    writer.partition(FetchedPartition(0, 0, 50, 50, 0, aborted), [records] if records else [], len(records))
    writer.end_topic()
    return b"".join(bytes(piece) for piece in writer.finish().pieces)


@pytest.mark.parametrize("aborted", [None, [], [(1000, 3), (2000, 300)]])
def test_the_next_offset_is_behind_the_last_whole_batch(aborted: list[tuple[int, int]] | None) -> None:
    whole = batch_at(10, 3) + batch_at(13, 40)
    assert frames.next_offset(answer(whole, aborted), TOPIC) == 53
    assert frames.next_offset(answer(whole[:-1], aborted), TOPIC) == 13
    assert frames.next_offset(answer(b"", aborted), TOPIC) == -1


def test_a_batch_gets_a_producer_and_a_sequence_and_is_sound() -> None:
    batch = bytearray(frames.record_batch(2, 100, NOW_MS))
    frames.sequenced(batch, (77, 3), 12)
    header: BatchHeader = validate_produce(memoryview(batch), ProduceLimits(), NOW_MS)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 12)


def test_the_interval_leaves_out_what_a_median_passes_with_five_per_cent() -> None:
    assert interval([float(number) for number in range(20)]) == [5.0, 14.0]
    assert interval([1.0, 2.0, 3.0]) == [1.0, 3.0]
