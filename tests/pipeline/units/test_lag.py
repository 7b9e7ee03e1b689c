"""Lag and freshness of a stream, and the table of statuses."""

from services.pipeline.observing.lag import Lag, behind, lags

REACHED = {("a", 0): 5, ("a", 1): 9, ("b", 0): 3}
ENDS = {("a", 0): 8, ("a", 1): 9, ("b", 0): 4}


def test_only_partitions_with_more_offsets_are_asked_for_their_oldest_record() -> None:
    assert behind(REACHED, ENDS) == {("a", 0): 5, ("b", 0): 3}
    assert behind(REACHED, {("a", 0): 2}) == {}


def test_the_oldest_record_of_all_partitions_tells_a_topic_s_freshness() -> None:
    found = lags(REACHED, {**ENDS, ("a", 1): 12}, {("a", 0): 7000, ("a", 1): 4000})
    assert found == {"a": Lag(6, 4000), "b": Lag(1, None)}
    assert found["a"].freshness_s(10_000) == 6.0


def test_markers_at_the_end_are_lag_without_age() -> None:
    assert lags(REACHED, ENDS, {})["b"].freshness_s(10_000) == 0.0


def test_a_record_from_the_future_is_no_negative_freshness() -> None:
    assert Lag(1, 20_000).freshness_s(10_000) == 0.0
