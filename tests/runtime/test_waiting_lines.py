"""Lines of appends that wait, within one budget."""

import pytest

from libs.runtime.parked_queues import ParkedQueues


def test_an_expired_entry_takes_along_the_entries_behind_it() -> None:
    waiting: ParkedQueues[str, str] = ParkedQueues(100)
    for name, deadline in (("a", 3.0), ("b", 1.0), ("c", 9.0)):
        assert waiting.hold("p", name, size=10, deadline=deadline)
    assert waiting.hold("q", "other", size=10, deadline=9.0)
    assert waiting.next_deadline() == 1.0
    assert sorted(waiting.expired(2.0)) == ["b", "c"]
    assert waiting.first("p") == "a"
    assert waiting.bytes == 20


@pytest.mark.parametrize(("size", "fits"), [(90, True), (91, False)])
def test_parked_entries_have_a_budget(size: int, fits: bool) -> None:
    waiting: ParkedQueues[str, str] = ParkedQueues(100)
    assert waiting.hold("p", "a", size=10, deadline=1.0)
    assert waiting.hold("q", "b", size=size, deadline=1.0) is fits
    waiting.pop("p")
    assert waiting.bytes == (size if fits else 0)
    assert "p" not in waiting


def test_one_that_left_before_joins_in_front_of_those_that_came_after_it() -> None:
    waiting: ParkedQueues[str, str] = ParkedQueues(100)
    for order, name in ((4, "d"), (7, "g"), (5, "e"), (1, "a")):
        assert waiting.hold("p", name, size=1, deadline=9.0, order=order)
    assert waiting.take("p") == ["a", "d", "e", "g"]
    assert not waiting
    assert waiting.bytes == 0


def test_entries_of_callers_that_hung_up_leave_and_the_others_keep_their_order() -> None:
    waiting: ParkedQueues[str, str] = ParkedQueues(100)
    for name in ("a", "b", "a", "c"):
        assert waiting.hold("p", name, size=10, deadline=9.0)
    assert waiting.hold("q", "a", size=10, deadline=9.0)
    waiting.drop(lambda item: item == "a")
    assert waiting.keys() == ["p"]
    assert waiting.bytes == 20
    assert waiting.take("p") == ["b", "c"]
