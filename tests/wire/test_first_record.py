"""A header of a batch's first record: equal to what a full reading finds, and bounded for bytes that lie."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.wire.record_batches.batches import HEADER_SIZE
from libs.wire.record_batches.first_record import HEADERS_MAX, first_record_header
from libs.wire.record_batches.records import BatchError, Record, build_batch, iter_records
from libs.wire.record_batches.varints import encoded

NAME = "traceparent"
BYTES_MAX = 256
TEXT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

names = st.sampled_from([NAME, "tracestate", "Traceparent", "traceparents", "", "é"]) | st.text(max_size=12)
values = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(names, values), max_size=HEADERS_MAX + 4).map(tuple)
records = st.builds(Record, values, values, st.integers(0, 1 << 40), headers)


def looked_up(batch: bytes | bytearray | memoryview) -> bytes | None:
    return first_record_header(memoryview(batch), NAME.encode(), HEADER_SIZE, BYTES_MAX)


def by_full_reading(batch: bytes | bytearray) -> bytes | None:
    """The dumb model: reads the whole record. Raises BatchError."""
    record = next(iter_records(batch))
    return next((value for name, value in record.headers[:HEADERS_MAX] if name == NAME), None)


def batch_with(*pairs: tuple[str, bytes | None]) -> bytearray:
    return build_batch([Record(b"k", b"v", 1, pairs), Record(None, None, 2, ((NAME, b"of the second record"),))])


@given(st.lists(records, min_size=1, max_size=3))
def test_the_header_is_the_one_that_a_full_reading_finds(some: list[Record]) -> None:
    batch = build_batch(some)
    expected = by_full_reading(batch)
    if expected is not None and len(expected) > BYTES_MAX:
        with pytest.raises(ValueError, match="are the most"):
            looked_up(batch)
    else:
        assert looked_up(batch) == expected


@settings(max_examples=500)
@given(st.data())
def test_bytes_that_lie_give_a_value_error_or_what_a_full_reading_finds(data: st.DataObject) -> None:
    batch = build_batch([data.draw(records)])
    changes = st.tuples(st.integers(HEADER_SIZE, len(batch) - 1), st.integers(0, 255))
    for position, byte in data.draw(st.lists(changes, max_size=4)):
        batch[position] = byte
    del batch[data.draw(st.integers(HEADER_SIZE, len(batch))) :]
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    try:
        found = looked_up(batch)
    except ValueError:
        return
    try:
        assert found == by_full_reading(batch)
    except BatchError:
        pass  # a full reading also looks at what follows the header


def test_the_first_of_several_counts_and_other_records_are_not_looked_at() -> None:
    assert looked_up(batch_with((NAME, TEXT), (NAME, b"another"))) == TEXT
    assert looked_up(batch_with()) is None
    assert looked_up(batch_with((NAME, None))) is None


def test_a_long_value_before_it_is_stepped_over() -> None:
    assert looked_up(batch_with(("tracestate", b"x" * 100_000), (NAME, TEXT))) == TEXT


def test_a_header_after_the_sixteenth_is_not_found() -> None:
    others = [(f"h{number}", b"") for number in range(HEADERS_MAX)]
    assert looked_up(batch_with(*others[1:], (NAME, TEXT))) == TEXT
    assert looked_up(batch_with(*others, (NAME, TEXT))) is None


def test_the_value_is_a_copy_of_a_bounded_number_of_bytes() -> None:
    batch = batch_with((NAME, b"x" * (BYTES_MAX + 1)))
    with pytest.raises(ValueError, match="256 are the most"):
        looked_up(batch)
    kept = looked_up(own := batch_with((NAME, TEXT)))
    own[:] = bytes(len(own))
    assert kept == TEXT


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (b"", "ends within"),
        (b"\x80" * 100, "ends within"),
        (b"\xff" * 9 + b"\x7f" + b"\0" * 50, "bytes, "),
        (encoded(-1) + b"\0" * 50, "bytes, "),
        (encoded(1000) + b"\0" * 50, "bytes, "),
        (encoded(20) + b"\0\0\0" + encoded(1 << 62) + b"\0" * 16, "ends within"),
        (encoded(20) + b"\0\0\0" + encoded(-2) + b"\0" * 19, "a field of -2"),
        (encoded(20) + b"\0\0\0\1\1" + encoded(1) + encoded(-1) + b"\0" * 13, "no name"),
        (encoded(6) + b"\0\0\0\1\1" + encoded(1) + encoded(4) + b"name" + b"\1", "longer than its record"),
        (encoded(19) + b"\0\0\0\1\1" + encoded(1) + encoded(11) + NAME.encode() + encoded(5) + b"12345", "remain of its record"),
    ],
)
def test_malformed_records_are_refused_by_a_value_error(record: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        looked_up(bytes(HEADER_SIZE) + record)
