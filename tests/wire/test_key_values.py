"""The latest value of each key in batches, as the record reader that makes an object of everything sees it."""

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.wire.record_batches.batch_layout import Codec
from libs.wire.record_batches.batches import CRC_START, HEADER, HEADER_SIZE, LENGTH_END
from libs.wire.record_batches.key_values import KeyValues, latest_values
from libs.wire.record_batches.keyed_batches import TransactionalBatch, build_keyed_batch
from libs.wire.record_batches.markers import Marker, build_marker, marker_record
from libs.wire.record_batches.records import BatchError, Record, build_batch, iter_batches, iter_records

texts = st.one_of(st.binary(max_size=3), st.binary(min_size=60, max_size=70), st.binary(min_size=9000, max_size=9001))
records = st.builds(
    Record,
    st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"k" * 200])),
    st.one_of(st.none(), texts),
    st.integers(0, 1 << 40),
    st.sampled_from([(), (("trace", b"1"),), (("empty", None), ("x", b"y" * 100))]),
)
logs = st.lists(st.tuples(st.lists(records, min_size=1, max_size=5), st.sampled_from(list(Codec)), st.integers(0, 3)), max_size=5)


def stored(log: list[tuple[list[Record], Codec, int]]) -> bytes:
    """Batches with gaps between them, as a compaction leaves them."""
    out, offset = bytearray(), 0
    for batch, codec, gap in log:
        out += build_batch(batch, base_offset=offset, codec=codec)
        offset += len(batch) + gap
    return bytes(out)


@settings(deadline=None)
@given(logs, st.integers(0, 12), st.integers(0, 30))
def test_they_are_what_a_dumb_reader_finds(log: list[tuple[list[Record], Codec, int]], start: int, end: int) -> None:
    batches = stored(log)
    expected: dict[bytes, bytes | None] = {}
    behind = start
    for batch in iter_batches(batches):
        if batch.header.base_offset >= end:
            break
        behind = max(behind, batch.header.last_offset + 1)
        for record in iter_records(batch.view):
            if record.key is not None and start <= record.offset < end:
                expected.pop(record.key, None)
                expected[record.key] = record.value
    found, position = latest_values(batches, start, end)
    values = found[0].values if found else {}
    assert len(found) <= 1
    assert list(values.items()) == list(expected.items())
    assert position == behind


def test_a_batch_that_was_cut_short_is_for_another_time() -> None:
    whole = build_batch([Record(b"a", b"1")])
    cut = build_batch([Record(b"b", b"2")], base_offset=1)[:-1]
    assert latest_values(bytes(whole + cut), 0, 9) == ([KeyValues({b"a": b"1"}, None)], 1)


def test_a_damaged_batch_is_refused() -> None:
    batch = build_batch([Record(b"a", b"1")])
    batch[-1] ^= 1
    with pytest.raises(BatchError, match="CRC"):
        latest_values(bytes(batch), 0, 9)


def test_records_of_a_transaction_are_not_taken_for_committed() -> None:
    """Only its marker says what they come to, and neighbours that belong to no transaction are not mixed with them."""
    marker = Marker(aborts=True, coordinator_epoch=3)
    log = b"".join(
        (
            build_batch([Record(b"a", b"1")]),
            build_batch([Record(b"b", b"2")], base_offset=1),
            build_batch([Record(b"a", b"3")], base_offset=2, producer_id=7, producer_epoch=1, transactional=True),
            build_batch([Record(b"a", b"4")], base_offset=3),
            build_marker(marker, producer_id=7, producer_epoch=2, timestamp_ms=0, base_offset=4),
        )
    )
    key, value = marker_record(marker)
    expected = [
        KeyValues({b"a": b"1", b"b": b"2"}, None),
        KeyValues({b"a": b"3"}, TransactionalBatch(7, 1)),
        KeyValues({b"a": b"4"}, None),
        KeyValues({key: value}, TransactionalBatch(7, 2, is_marker=True)),
    ]
    assert latest_values(log, 0, 9) == (expected, 5)
    assert latest_values(log, 2, 4) == (expected[1:3], 4)


@pytest.mark.parametrize("aborts", [True, False])
def test_a_coordinator_builds_the_marker_that_others_build(aborts: bool) -> None:
    marker = Marker(aborts, 3)
    built = build_keyed_batch([marker_record(marker)], 5, TransactionalBatch(7, 2, is_marker=True))
    assert built == build_marker(marker, producer_id=7, producer_epoch=2, timestamp_ms=5)


def test_a_coordinator_builds_transactional_batches_without_sequences() -> None:
    built = build_keyed_batch([(b"a", b"1"), (b"b", None)], 5, TransactionalBatch(7, 2))
    records = [Record(b"a", b"1", 5), Record(b"b", None, 5)]
    assert built == build_batch(records, producer_id=7, producer_epoch=2, base_sequence=-1, transactional=True)


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(1, 5))
def test_nonsense_that_matches_its_crc_is_refused_or_read(body: bytes, count: int) -> None:
    batch = bytearray(HEADER_SIZE) + body
    fields = [0, len(batch) - LENGTH_END, 0, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count]
    HEADER.pack_into(batch, 0, *fields)
    fields[4] = crc32c(memoryview(batch)[CRC_START:])
    HEADER.pack_into(batch, 0, *fields)
    try:
        latest_values(bytes(batch), 0, 9)
    except BatchError:
        pass
