"""The judge of cleaner outputs sees a deleted key that comes back."""

import pytest

from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.records import Record, build_batch, iter_records
from tests.simulation.compacted import Entry, revived


def entries(*records: tuple[bytes, bytes | None]) -> dict[int, Entry]:
    batches = [bytes(build_batch([Record(key, value, 1)], base_offset=at)) for at, (key, value) in enumerate(records)]
    return {at: Entry(next(iter(iter_records(batch))), BatchHeader.at(batch)) for at, batch in enumerate(batches)}


LOG = entries((b"a", b"old"), (b"a", None), (b"b", b"new"), (b"b", None))


@pytest.mark.parametrize(
    ("left", "aborted", "shown"),
    [
        ((0, 2, 3), (), [0]),
        ((0, 2), (), [0, 2]),
        ((2, 3), (), []),
        ((0, 1, 2, 3), (), []),
        ((3,), (), []),
        ((0, 2, 3), (0,), []),
        ((0, 2, 3), (1,), []),
    ],
)
def test_a_value_is_back_where_it_is_left_and_its_tombstone_is_not(
    left: tuple[int, ...], aborted: tuple[int, ...], shown: list[int]
) -> None:
    assert revived(LOG, {offset: LOG[offset] for offset in left}, aborted) == shown
