"""The choice of logs to clean, of the range in each, and of the segments that become one."""

from typing import Any

from libs.commitlog.cleaner.planning import CleanPlan, CompactionConfig, SealedSegment, SourceSizes, group, plan

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000


def segments(*sizes: int, offsets: int = 100, age_ms: int = 10 * HOUR_MS) -> list[SealedSegment]:
    """Segments of these sizes, each of so many offsets, written one hour after the other; the last one `age_ms` ago."""
    sealed = []
    for number, size in enumerate(sizes):
        latest_ms = NOW_MS - age_ms - (len(sizes) - 1 - number) * HOUR_MS
        base = number * offsets
        sealed.append(SealedSegment(base, base + offsets, size, latest_ms, latest_ms - HOUR_MS))
    return sealed


def planned(sources: list[SealedSegment], config: CompactionConfig | None = None, **facts: Any) -> CleanPlan:
    end = sources[-1].next_offset if sources else 0
    facts = {
        "checkpoint": None, "log_start_offset": 0, "log_end_offset": end + 10, "stable_offset": end + 10,
        "active_base_offset": end, "now_ms": NOW_MS, **facts,
    }  # fmt: skip
    return plan(sources, config or CompactionConfig(), **facts)


def test_a_log_that_was_never_cleaned_is_all_dirty() -> None:
    outcome = planned(segments(10, 20, 30))
    assert (outcome.worthwhile, outcome.ratio, outcome.first_dirty_offset, outcome.end_offset) == (True, 1.0, 0, 300)
    assert outcome.cleanable_bytes == 60
    assert [s.base_offset for s in outcome.sources] == [0, 100, 200]


def test_a_log_is_cleaned_when_more_than_the_ratio_is_dirty() -> None:
    assert not planned(segments(50, 50), checkpoint=100).worthwhile
    assert planned(segments(49, 51), checkpoint=100).worthwhile
    assert planned(segments(50, 50), CompactionConfig(min_cleanable_dirty_ratio=0.4), checkpoint=100).worthwhile


def test_an_empty_log_is_not_worth_cleaning() -> None:
    outcome = planned([], CompactionConfig(min_cleanable_dirty_ratio=0.0))
    assert (outcome.worthwhile, outcome.ratio, outcome.sources) == (False, 0.0, ())


def test_a_clean_segment_is_not_cleaned_again() -> None:
    config = CompactionConfig(min_cleanable_dirty_ratio=0.0, max_compaction_lag_ms=1)
    assert not planned(segments(10, 20), config, checkpoint=200).worthwhile


def test_a_segment_that_was_left_half_done_counts_on_both_sides() -> None:
    assert planned(segments(60, 40), checkpoint=150).ratio == 40 / 140


def test_nothing_at_or_past_the_stable_offset_is_cleaned() -> None:
    """KAFKA-13194: neither past the high watermark nor into a transaction that is open."""
    for stable, end in ((300, 300), (299, 200), (200, 200), (199, 100), (50, 0)):
        outcome = planned(segments(10, 20, 30), stable_offset=stable)
        assert (outcome.end_offset, len(outcome.sources)) == (end, end // 100)


def test_a_young_segment_and_what_follows_it_are_spared() -> None:
    sealed = segments(10, 20, 30)
    config = CompactionConfig(min_compaction_lag_ms=11 * HOUR_MS)
    assert planned(sealed, config).end_offset == 200
    assert planned(sealed, CompactionConfig(min_compaction_lag_ms=10 * HOUR_MS)).end_offset == 300
    assert not planned(sealed, CompactionConfig(min_compaction_lag_ms=100 * HOUR_MS)).worthwhile


def test_a_record_that_waited_too_long_is_cleaned_whatever_the_ratio() -> None:
    sealed = segments(90, 10)
    assert not planned(sealed, checkpoint=100).worthwhile
    outcome = planned(sealed, CompactionConfig(max_compaction_lag_ms=10 * HOUR_MS), checkpoint=100)
    assert (outcome.worthwhile, outcome.overdue_ms) == (True, HOUR_MS)
    assert not planned(sealed, CompactionConfig(max_compaction_lag_ms=11 * HOUR_MS), checkpoint=100).worthwhile


def test_a_checkpoint_outside_of_the_log_is_false() -> None:
    for checkpoint in (99, 311):
        outcome = planned(segments(10, 20, 30)[1:], checkpoint=checkpoint, log_start_offset=150)
        assert (outcome.checkpoint_is_false, outcome.first_dirty_offset) == (True, 150)
    assert not planned(segments(10, 20), checkpoint=210).checkpoint_is_false


def test_a_log_that_starts_within_its_active_segment_has_nothing_to_clean() -> None:
    """KAFKA-9133."""
    outcome = planned(segments(10, 20), log_start_offset=205, log_end_offset=210)
    assert not outcome.worthwhile
    assert outcome.cleanable_bytes == 0


def test_a_gap_before_the_active_segment_is_no_obstacle() -> None:
    sealed = [*segments(10), SealedSegment(500, 510, 5, NOW_MS, NOW_MS)]
    outcome = planned(sealed, active_base_offset=2000, log_end_offset=2000, stable_offset=2000)
    assert (outcome.end_offset, len(outcome.sources)) == (2000, 2)
    assert planned(sealed, active_base_offset=2000, log_end_offset=2000, stable_offset=300).end_offset == 300


# --- groups


def sizes(*triples: tuple[int, int, int], offsets: int = 10) -> list[SourceSizes]:
    return [SourceSizes(n * offsets, (n + 1) * offsets, *triple) for n, triple in enumerate(triples)]


def grouped(sources: list[SourceSizes], segment_bytes: int = 100, index_bytes: int = 80) -> list[int]:
    groups = group(sources, segment_bytes, index_bytes)
    assert [source for members in groups for source in members] == sources
    return [len(members) for members in groups]


def test_adjacent_segments_that_fit_become_one() -> None:
    assert grouped([]) == []
    assert grouped(sizes((50, 8, 12), (50, 8, 12), (1, 8, 12))) == [2, 1]


def test_a_segment_that_is_too_large_stays_alone() -> None:
    assert grouped(sizes((200, 8, 12), (10, 8, 12), (300, 8, 12))) == [1, 1, 1]


def test_indexes_must_fit_too() -> None:
    assert grouped(sizes((1, 40, 12), (1, 40, 12), (1, 8, 12))) == [2, 1]
    assert grouped(sizes((1, 8, 60), (1, 8, 12), (1, 8, 12))) == [2, 1]


def test_offsets_of_a_segment_fit_into_31_bits() -> None:
    billion = 1 << 30
    assert grouped(sizes((1, 8, 12), (1, 8, 12), (1, 8, 12), offsets=billion)) == [2, 1]
    assert grouped(sizes((1, 8, 12), (1, 8, 12), (0, 0, 0), offsets=billion)) == [3]
