"""The segments that retention takes, as in Kafka."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.commitlog.partition_log.retention import Reason, RetentionPolicy, SegmentFacts, decide_retention

FOR_EVER = RetentionPolicy(-1, -1)


def segments(*sizes: int) -> list[SegmentFacts]:
    """Ten offsets each."""
    return [SegmentFacts(10 * i, 10 * i + 10, size) for i, size in enumerate(sizes)]


def decide(
    facts: Sequence[SegmentFacts],
    policy: RetentionPolicy = FOR_EVER,
    *,
    stamps: Sequence[int] = (),
    start: int = 0,
    high_watermark: int = 1 << 40,
    now: int = 0,
) -> list[Reason]:
    return decide_retention(facts, lambda i: stamps[i], policy, log_start_offset=start, high_watermark=high_watermark, now_ms=now)


def test_without_limits_nothing_goes() -> None:
    assert decide(segments(5, 5, 0), now=1 << 50) == []


def test_segments_before_the_log_start_go_whatever_the_policy() -> None:
    policy = RetentionPolicy(0, 0, delete=False)
    assert decide(segments(5, 5, 5), policy, start=20) == [Reason.BEFORE_START] * 2
    assert decide(segments(5, 5, 5), policy, start=19) == [Reason.BEFORE_START]


def test_the_last_segment_is_not_taken_for_lying_before_the_start() -> None:
    assert decide(segments(5, 5), start=20) == [Reason.BEFORE_START]


@pytest.mark.parametrize(("limit", "deleted"), [(-1, 0), (30, 0), (21, 0), (20, 1), (19, 1), (10, 2), (0, 3)])
def test_size_takes_a_segment_only_if_the_rest_still_holds_the_limit(limit: int, deleted: int) -> None:
    assert decide(segments(10, 10, 10), RetentionPolicy(-1, limit)) == [Reason.SIZE] * deleted


def test_size_counts_what_is_left_after_the_log_start_took_its_share() -> None:
    assert decide(segments(10, 10, 10), RetentionPolicy(-1, 15), start=10) == [Reason.BEFORE_START]


def test_time_takes_what_is_older_and_stops_at_the_first_that_is_young() -> None:
    policy = RetentionPolicy(100, -1)
    assert decide(segments(5, 5, 5), policy, stamps=(0, 300, 0), now=101) == [Reason.TIME]
    assert decide(segments(5, 5, 5), policy, stamps=(1, 0, 0), now=101) == []


def test_all_may_go_if_the_last_holds_records_and_an_empty_last_stays() -> None:
    policy = RetentionPolicy(100, -1)
    assert decide(segments(5, 5), policy, stamps=(0, 0), now=500) == [Reason.TIME] * 2
    assert decide(segments(5, 0), policy, stamps=(0, 0), now=500) == [Reason.TIME]
    assert decide(segments(0), policy, stamps=(0,), now=500) == []


@pytest.mark.parametrize(("high_watermark", "deleted"), [(0, 0), (9, 0), (10, 1), (19, 1), (30, 3)])
def test_nothing_at_or_past_the_high_watermark_goes(high_watermark: int, deleted: int) -> None:
    policy = RetentionPolicy(0, 0)
    assert len(decide(segments(5, 5, 5), policy, stamps=(0, 0, 0), high_watermark=high_watermark, now=500)) == deleted


def test_a_clock_that_went_back_deletes_nothing() -> None:
    assert decide(segments(5, 5), RetentionPolicy(0, -1), stamps=(1000, 1000), now=5) == []


def test_a_timestamp_from_the_future_keeps_its_segment() -> None:
    assert decide(segments(5, 5), RetentionPolicy(0, -1), stamps=(1 << 60, 0), now=5) == []


def test_no_index_is_looked_into_behind_the_first_that_stays() -> None:
    looked_into = []

    def latest_ms(index: int) -> int:
        looked_into.append(index)
        return 0 if index == 0 else 1000

    facts = segments(5, 5, 5, 5)
    reasons = decide_retention(facts, latest_ms, RetentionPolicy(1, -1), log_start_offset=0, high_watermark=40, now_ms=500)
    assert (reasons, looked_into) == ([Reason.TIME], [0, 1])


@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=8),
    stamps=st.lists(st.integers(0, 50), min_size=8, max_size=8),
    policy=st.builds(RetentionPolicy, st.integers(-1, 40), st.integers(-1, 100), st.booleans()),
    start=st.integers(0, 80),
    high_watermark=st.integers(0, 80),
    now=st.integers(0, 100),
)
def test_it_is_what_kafka_does_in_three_passes(
    sizes: list[int], stamps: list[int], policy: RetentionPolicy, start: int, high_watermark: int, now: int
) -> None:
    """A simple model: one pass per reason over the remaining segments, each with Kafka's own condition."""
    left = list(enumerate(segments(*sizes)))
    end = left[-1][1].end_offset
    expected: list[Reason] = []

    def one_pass(reason: Reason) -> None:
        total = sum(segment.size for _, segment in left)
        diff = total - policy.retention_bytes
        while left:
            slot, segment = left[0]
            following = left[1][1].base_offset if len(left) > 1 else None
            if reason is Reason.BEFORE_START:
                goes = following is not None and following <= start
            elif reason is Reason.SIZE:
                goes = policy.retention_bytes >= 0 and diff - segment.size >= 0
            else:
                goes = policy.retention_ms >= 0 and now - stamps[slot] > policy.retention_ms
            upper_bound = end if following is None else following
            if not goes or high_watermark < upper_bound or (following is None and segment.size == 0):
                return
            diff -= segment.size
            del left[0]
            expected.append(reason)

    one_pass(Reason.BEFORE_START)
    if policy.delete:
        one_pass(Reason.SIZE)
        one_pass(Reason.TIME)
    got = decide(segments(*sizes), policy, stamps=stamps, start=start, high_watermark=high_watermark, now=now)
    assert got == expected
