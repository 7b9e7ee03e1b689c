"""Record batches made from Arrow columns hold exactly the rows, and a broker accepts them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.wire.record_batches.batch_layout import Codec
from libs.wire.record_batches.batches import ProduceLimits, validate_produce
from libs.wire.record_batches.records import Record, build_batch, iter_records
from services.pipeline.sink.columns import record_columns
from services.pipeline.sink.record_encoder import BatchProducer, encode, frame_batch
from tests.pipeline.sink.arrow_rows import arrow_rows

PRODUCER = BatchProducer(7, 3)
NOW_MS = 1 << 41
LIMITS = ProduceLimits()
contents = st.none() | st.binary(max_size=70) | st.sampled_from([b"x" * 8191, b"x" * 8192])
headers = st.lists(st.tuples(st.text(max_size=5), contents), max_size=3).map(tuple)
records = st.builds(Record, contents, contents, st.sampled_from([0, 5, 1_700_000_000_000, NOW_MS]), headers, st.just(-1))


def framed(rows: list[Record], partitions: list[int], bytes_max: int, codec: int = Codec.NONE) -> list[tuple[int, bytes]]:
    batches = encode(record_columns(arrow_rows(rows), 0), np.array(partitions, np.int64), bytes_max)
    return [(batch.partition, b"".join(bytes(part) for part in frame_batch(batch, PRODUCER, 11, codec))) for batch in batches]


@given(st.lists(records, min_size=1, max_size=12), st.integers(1, 3), st.sampled_from([100, 9_000, 1 << 20]))
def test_batches_hold_the_rows_in_order_within_bounds(rows: list[Record], per_partition: int, bytes_max: int) -> None:
    partitions = [row // per_partition for row in range(len(rows))]
    read = []
    for partition, batch in framed(rows, partitions, bytes_max):
        header = validate_produce(memoryview(batch), LIMITS, NOW_MS)
        assert (header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional) == (7, 3, 11, True)
        inside = list(iter_records(batch))
        assert header.max_timestamp == max(record.timestamp for record in inside)
        assert len(batch) <= bytes_max or len(inside) == 1
        read += [(partition, record._replace(offset=-1)) for record in inside]
    assert read == list(zip(partitions, rows, strict=True))


@given(st.lists(records, min_size=1, max_size=5))
def test_a_batch_is_byte_for_byte_what_the_library_builds(rows: list[Record]) -> None:
    ((_, batch),) = framed(rows, [0] * len(rows), 1 << 20)
    expected = build_batch(rows, producer_id=7, producer_epoch=3, base_sequence=11, transactional=True)
    assert batch == bytes(expected)


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_can_be_read(codec: Codec) -> None:
    rows = [Record(b"key", b"value" * 100, 5, (("name", b"content"),))] * 50
    ((_, batch),) = framed(rows, [0] * 50, 1 << 20, codec)
    validate_produce(memoryview(batch), LIMITS, NOW_MS)
    assert [record._replace(offset=-1) for record in iter_records(batch)] == rows
