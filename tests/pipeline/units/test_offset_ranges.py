"""Which offsets a log no longer has."""

from services.pipeline.spark.offset_ranges import OffsetRange, as_json, describe, grown, lost_ranges, shrunken

WANTED = {("b", 0): OffsetRange(10, 20), ("a", 1): OffsetRange(0, 5), ("a", 0): OffsetRange(7, 7)}


def test_only_what_lies_below_the_start_of_the_log_is_lost() -> None:
    assert lost_ranges(WANTED, {("a", 0): 7, ("a", 1): 0, ("b", 0): 10}) == {}
    assert lost_ranges(WANTED, {("a", 0): 9, ("a", 1): 0, ("b", 0): 13}) == {("b", 0): OffsetRange(10, 13)}


def test_a_log_that_starts_behind_the_range_has_lost_all_of_it() -> None:
    assert lost_ranges(WANTED, {("a", 1): 99, ("b", 0): 10}) == {("a", 1): OffsetRange(0, 5)}


def test_a_partition_that_is_gone_has_lost_its_range() -> None:
    assert lost_ranges({("b", 0): OffsetRange(10, 20)}, {}) == {("b", 0): OffsetRange(10, 20)}


def test_ranges_are_told_by_first_and_last_offset() -> None:
    assert describe({("orders", 0): OffsetRange(17, 42), ("orders", 3): OffsetRange(5, 6)}) == (
        "orders-0 offsets 17 to 41, orders-3 offset 5"
    )
    assert as_json({("orders", 0): OffsetRange(17, 42)}) == {"orders": {"0": [17, 42]}}


def test_a_log_that_ends_before_what_was_read_was_made_anew() -> None:
    assert list(shrunken({("a", 0): 5, ("a", 1): 5, ("gone", 0): 5}, {("a", 0): 5, ("a", 1): 4})) == [(("a", 1), 4, 5)]


def test_topics_that_have_grown_are_those_with_partitions_beside_known_ones() -> None:
    before = {("a", 0): 5, ("b", 0): 5, ("b", 1): 5}
    assert list(grown(before, {("a", 0), ("a", 1), ("b", 0), ("new", 0), ("new", 1)})) == [("a", 2)]
