"""The rules of a fetch: budgets, offsets and epochs."""

from services.storage.core.fetch.fetch_rules import Divergence, FetchBudget, diverges, refuse_offset


def test_a_partition_gets_no_more_than_its_own_and_the_requests_rest() -> None:
    budget = FetchBudget(min_bytes=1, max_bytes=100)
    assert budget.limit(60) == 60
    budget.take(60)
    assert budget.limit(60) == 40
    budget.take(40)
    assert budget.limit(60) == 0


def test_the_first_batch_may_pass_every_limit_and_later_ones_may_not() -> None:
    budget = FetchBudget(min_bytes=1, max_bytes=10)
    assert budget.owes_a_batch
    budget.take(5000)
    assert not budget.owes_a_batch
    assert budget.limit(100) == 0
    assert budget.enough


def test_a_minimum_that_could_never_be_met_is_cut_to_the_maximum() -> None:
    budget = FetchBudget(min_bytes=1000, max_bytes=10)
    budget.take(10)
    assert budget.enough
    assert FetchBudget(min_bytes=0, max_bytes=10).enough
    assert FetchBudget(min_bytes=-5, max_bytes=-5).enough


def test_offsets_outside_the_log_are_refused() -> None:
    assert [refuse_offset(offset, 5, 10) for offset in (4, 5, 10, 11)] == [1, 0, 0, 1]


def test_a_fetcher_whose_epoch_ended_earlier_here_gets_the_place_of_divergence() -> None:
    assert diverges(3, 50, 3, 40) == Divergence(3, 40)
    assert diverges(3, 50, 2, 60) == Divergence(2, 60)
    assert diverges(3, 50, 3, 50) is None
    assert diverges(3, 50, -1, -1) == 1
