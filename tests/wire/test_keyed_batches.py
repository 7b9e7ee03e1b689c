"""Batches of keys and values are, byte for byte, what the general builder makes of them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from libs.wire.record_batches.keyed_batches import build_keyed_batch
from libs.wire.record_batches.records import Record, build_batch

LENGTHS = st.sampled_from([0, 1, 57, 58, 63, 64, 1023, 1024, 8191, 8192, 70_000])
DATA = st.binary(max_size=100) | LENGTHS.map(bytes)
RECORDS = st.lists(st.tuples(DATA, st.none() | DATA), min_size=1, max_size=5)


@settings(deadline=None)
@given(RECORDS, st.integers(0, 1 << 45))
def test_a_batch_is_as_the_general_builder_makes_it(records: list[tuple[bytes, bytes | None]], now_ms: int) -> None:
    assert build_keyed_batch(records, now_ms) == build_batch([Record(key, value, now_ms) for key, value in records])


def test_offsets_of_many_records_are_written_alike() -> None:
    records = [(b"key", b"value")] * 10_000
    assert build_keyed_batch(records, 7) == build_batch([Record(key, value, 7) for key, value in records])
