"""Fetches that wait: whoever waits on a partition wakes with it, and leaves nothing behind."""

from services.storage.core.fetch.parked_fetches import ParkedFetches


def test_a_fetch_wakes_with_any_of_its_partitions() -> None:
    parked: ParkedFetches[str, int] = ParkedFetches()
    parked.park(1, ["a", "b"])
    parked.park(2, ["b", "b"])
    assert parked.waiting_on("a") == (1,)
    assert parked.waiting_on("b") == (1, 2)
    assert parked.waiting_on("c") == ()


def test_a_fetch_that_was_answered_waits_nowhere() -> None:
    parked: ParkedFetches[str, int] = ParkedFetches()
    parked.park(1, ["a", "b"])
    parked.park(2, ["b"])
    assert parked.remove(1)
    assert not parked.remove(1)
    assert parked.waiting_on("a") == ()
    assert parked.waiting_on("b") == (2,)
    assert parked.all() == (2,)
    assert len(parked) == 1
