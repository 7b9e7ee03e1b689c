"""The judge of cleaner outputs sees a deleted key that comes back."""

import pytest

from tests.simulation.compacted import Keyed, revived

LOG = dict(enumerate([Keyed(b"a", b"old"), Keyed(b"a", None), Keyed(b"b", b"new"), Keyed(b"b", None)]))


@pytest.mark.parametrize(
    ("left", "shown"), [((0, 2, 3), [0]), ((0, 2), [0, 2]), ((2, 3), []), ((0, 1, 2, 3), []), ((3,), []), ((), [])]
)
def test_a_value_is_back_where_it_is_left_and_its_tombstone_is_not(left: tuple[int, ...], shown: list[int]) -> None:
    assert revived(LOG, {offset: LOG[offset] for offset in left}) == shown


def test_a_value_is_not_back_if_a_later_record_of_its_key_is_left() -> None:
    later = Keyed(b"a", b"later")
    assert revived({**LOG, 4: later}, {0: LOG[0], 4: later}) == []
