"""Produces that wait for the high watermark: in order, at most once, never early."""

from hypothesis import given
from hypothesis import strategies as st

from services.storage.core.produce.parked_produces import ParkedProduces


def test_produces_leave_in_order_of_arrival_once_they_are_committed() -> None:
    parked: ParkedProduces[str] = ParkedProduces()
    for offset in (10, 20, 30):
        parked.park(offset, 100.0, f"to {offset}")
    assert parked.committed(25) == ["to 10", "to 20"]
    assert parked.committed(25) == []
    assert len(parked) == 1


def test_a_duplicate_leaves_with_its_original() -> None:
    parked: ParkedProduces[str] = ParkedProduces()
    parked.park(10, 100.0, "original")
    parked.park(20, 100.0, "later")
    parked.park(10, 100.0, "duplicate")
    assert parked.committed(10) == ["original", "duplicate"]


def test_the_late_are_handed_back_once_and_the_others_stay() -> None:
    parked: ParkedProduces[str] = ParkedProduces()
    parked.park(10, 5.0, "patient for 5")
    parked.park(20, 3.0, "patient for 3")
    assert parked.next_deadline() == 3.0
    assert parked.expired(2.9) == []
    assert parked.expired(3.0) == ["patient for 3"]
    assert parked.next_deadline() == 5.0
    assert parked.committed(99) == ["patient for 5"]
    assert parked.next_deadline() is None


def test_draining_hands_back_everyone_in_order_of_arrival() -> None:
    parked: ParkedProduces[str] = ParkedProduces()
    parked.park(20, 1.0, "first")
    parked.park(10, 1.0, "second")
    assert parked.drain() == ["first", "second"]
    assert len(parked) == 0


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 20))), st.lists(st.tuples(st.booleans(), st.integers(0, 50))))
def test_every_produce_is_answered_at_most_once_and_never_before_its_time(
    arrivals: list[tuple[int, int]], facts: list[tuple[bool, int]]
) -> None:
    parked: ParkedProduces[int] = ParkedProduces()
    for number, (offset, deadline) in enumerate(arrivals):
        parked.park(offset, float(deadline), number)
    answered: set[int] = set()
    for is_commit, value in facts:
        for number in parked.committed(value) if is_commit else parked.expired(float(value)):
            assert number not in answered
            assert arrivals[number][0 if is_commit else 1] <= value
            answered.add(number)
        assert len(parked) == len(arrivals) - len(answered)
