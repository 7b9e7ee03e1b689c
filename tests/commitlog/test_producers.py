"""Idempotent producers: duplicates, gaps, epochs and wraps, as Kafka answers them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.commitlog.opening.resume_points import ResumePoint, parse_resume
from libs.commitlog.producers.producer_snapshot import parse_snapshot
from libs.commitlog.producers.producer_state import FRESH, CachedBatch, Duplicate, ProducerEntry, ProducerState
from libs.commitlog.segments.segment_progress import SegmentProgress
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import TRANSACTIONAL, BatchError, BatchHeader
from libs.wire.record_batches.markers import Marker
from tests.support.whole_contents import format_resume, format_snapshot

MAX = 2**31 - 1


def header(sequence: int, *, count: int = 1, epoch: int = 0, producer: int = 7, attributes: int = 0) -> BatchHeader:
    return BatchHeader(0, 100, -1, 2, 0, attributes, count - 1, 1000, 1000 + sequence % 100, producer, epoch, sequence, count)


def append(state: ProducerState, sequence: int, offset: int, **fields: int) -> None:
    batch = header(sequence, **fields)
    assert state.check(batch) is FRESH
    state.record(batch, offset)
    state.commit()


def refusal(state: ProducerState, batch: BatchHeader) -> ErrorCode:
    with pytest.raises(BatchError) as refused:
        state.check(batch)
    return refused.value.code


def test_batches_without_a_producer_are_always_fresh() -> None:
    state = ProducerState()
    batch = header(-1, producer=-1, epoch=-1)
    assert state.check(batch) is FRESH
    state.record(batch, 0)
    assert state.entries == {}


def test_a_repeated_batch_is_answered_with_its_first_offsets() -> None:
    state = ProducerState()
    append(state, 0, 100, count=3)
    append(state, 3, 110, count=2)
    assert state.check(header(0, count=3)) == Duplicate(100, 102, 1000)
    assert state.check(header(3, count=2)) == Duplicate(110, 111, 1003)


def test_the_window_holds_five_batches_and_the_sixth_last_is_an_error() -> None:
    """Regression 55."""
    state = ProducerState()
    for sequence in range(6):
        append(state, sequence, sequence)
    assert state.check(header(1)) == Duplicate(1, 1, 1001)
    assert refusal(state, header(0)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_out_of_order() -> None:
    state = ProducerState()
    append(state, 0, 0)
    assert refusal(state, header(2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_part_of_a_known_batch_is_not_its_duplicate() -> None:
    state = ProducerState()
    append(state, 0, 0, count=4)
    assert refusal(state, header(0, count=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(state, header(2, count=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_start_anywhere() -> None:
    """KAFKA-6003: a replica without producer state accepts the leader's sequences; so does a log whose state expired."""
    assert ProducerState().check(header(500)) is FRESH


def test_an_old_epoch_is_refused_before_its_sequence_is_looked_at() -> None:
    state = ProducerState()
    append(state, 0, 0, epoch=3)
    assert refusal(state, header(9, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_starts_at_zero_and_forgets_the_old_batches() -> None:
    state = ProducerState()
    append(state, 0, 0)
    assert refusal(state, header(1, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(state, 0, 1, epoch=1)
    assert len(state.entries[7].batches) == 1
    assert state.check(header(0, epoch=1)) == Duplicate(1, 1, 1000)


def test_sequences_wrap_to_zero() -> None:
    state = ProducerState()
    append(state, MAX - 1, 0)
    append(state, MAX, 1)
    append(state, 0, 2)
    assert state.check(header(MAX)) == Duplicate(1, 1, 1000 + MAX % 100)


def test_a_batch_may_wrap_in_its_middle() -> None:
    state = ProducerState()
    append(state, MAX - 1, 0, count=4)  # MAX-1, MAX, 0, 1
    assert state.entries[7].batches[-1].last_sequence == 1
    assert isinstance(state.check(header(MAX - 1, count=4)), Duplicate)
    append(state, 2, 4)


def test_several_batches_before_one_commit_see_each_other_and_revert_together() -> None:
    state = ProducerState()
    append(state, 0, 0)
    before = dict(state.entries)
    for sequence in (1, 2):
        assert state.check(header(sequence)) is FRESH
        state.record(header(sequence), sequence)
    state.record(header(0, producer=8), 3)
    assert state.as_of(2)[7].batches[-1].last_offset == 1
    assert 8 not in state.as_of(2)
    state.revert()
    assert state.entries == before
    assert state.check(header(1)) is FRESH


def test_silent_producers_expire_unless_a_transaction_is_open() -> None:
    state = ProducerState()
    append(state, 0, 0)
    append(state, 0, 1, producer=8, attributes=0x10)
    assert state.expire(5000, 86_400_000) == 0
    assert state.expire(5000 + 86_399_999, 86_400_000) == 0
    assert state.expire(5000 + 86_400_000, 86_400_000) == 1
    assert set(state.entries) == {8}


def test_a_producer_of_old_records_is_silent_from_its_last_append_on() -> None:
    """In a backfill the records are years old, and the producer is active."""
    day, now = 86_400_000, 1000 + 1000 * 86_400_000
    state = ProducerState()
    append(state, 0, 0)
    assert state.expire(now, day) == 0
    append(state, 1, 1)
    assert state.expire(now + day, day) == 0
    assert isinstance(state.check(header(1)), Duplicate)
    assert state.expire(now + 2 * day, day) == 1
    append(state, 0, 2)
    assert state.expire(now + 4 * day, day) == 0, "its next life has the full time"


def test_a_producer_that_was_read_from_the_log_has_the_full_time_from_the_opening_on() -> None:
    day, now = 86_400_000, 1000 + 1000 * 86_400_000
    before = ProducerState()
    append(before, 0, 0)
    state = ProducerState(dict(before.entries))
    assert state.expire(now, day) == 0
    assert state.expire(now + day - 1, day) == 0
    assert state.expire(now + day, day) == 1


def test_a_marker_closes_the_transaction() -> None:
    state = ProducerState()
    append(state, 0, 5, attributes=0x10)
    assert state.entries[7].transaction_first_offset == 5
    state.replay(header(-1, attributes=0x30)._replace(base_offset=6), Marker(aborts=False, coordinator_epoch=4))
    assert state.entries[7].transaction_first_offset == -1
    assert state.entries[7].coordinator_epoch == 4


ENTRIES = st.dictionaries(
    st.integers(0, 2**63 - 1),
    st.builds(
        ProducerEntry,
        st.integers(0, 32766),
        st.lists(
            st.builds(CachedBatch, st.integers(0, MAX), st.integers(0, 2**62), st.integers(0, 1000), st.integers(-1, 2**62)),
            max_size=5,
        ).map(tuple),
        st.integers(-1, 100),
        st.integers(-1, 2**62),
        st.integers(-1, 2**62),
    ),
    max_size=8,
)


@given(entries=ENTRIES)
def test_resume_points_keep_everything_and_snapshots_the_last_batch(entries: dict[int, ProducerEntry]) -> None:
    point = ResumePoint(77, SegmentProgress(1, 2, 3, 4, 5, 6, 7), entries)
    assert parse_resume(format_resume(point), "") == point
    kept = parse_snapshot(format_snapshot(entries), "")
    assert set(kept) == set(entries)
    for producer, entry in entries.items():
        assert kept[producer].epoch == entry.epoch
        assert kept[producer].batches[:1] == tuple(batch._replace(timestamp=entry.last_timestamp) for batch in entry.batches[-1:])


class Model:
    """A model that keeps everything that was ever appended."""

    def __init__(self) -> None:
        self.epoch: int | None = None
        self.batches: list[tuple[int, int]] = []  # (first sequence, count), of this epoch

    def expect(self, epoch: int, sequence: int, count: int) -> str:
        if self.epoch is None:
            return "fresh"
        if epoch < self.epoch:
            return "47"
        if epoch > self.epoch:
            return "fresh" if sequence == 0 else "45"
        if (sequence, count) in self.batches[-5:]:
            return "duplicate"
        last, size = self.batches[-1]
        return "fresh" if sequence == (last + size) % 2**31 else "45"


@given(
    start=st.sampled_from([0, MAX - 5]),
    steps=st.lists(st.tuples(st.integers(0, 2), st.integers(-6, 3), st.integers(1, 3)), max_size=30),
)
def test_answers_equal_those_of_a_dumb_model(start: int, steps: list[tuple[int, int, int]]) -> None:
    state, model, offset, following = ProducerState(), Model(), 0, start
    for epoch, shift, count in steps:
        sequence = (following + min(shift, 0 if shift < 1 else shift - 2)) % 2**31 if shift != 3 else 0
        batch = header(sequence, count=count, epoch=epoch)
        try:
            answer = "duplicate" if isinstance(state.check(batch), Duplicate) else "fresh"
        except BatchError as refused:
            answer = str(int(refused.code))
        assert answer == model.expect(epoch, sequence, count)
        if answer == "fresh":
            state.record(batch, offset)
            state.commit()
            if model.epoch != epoch:
                model.batches = []
            model.epoch = epoch
            model.batches.append((sequence, count))
            offset += count
            following = (sequence + count) % 2**31


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("next", "next", "next", "next", "again", "gap", "epoch", "transaction", "marker", "commit", "revert")),
        st.integers(1, 3),
        st.sampled_from((7, 8)),
    ),
    max_size=40,
)


@given(STEPS, st.sampled_from((0, MAX - 4)))
def test_a_batch_that_plainly_comes_next_is_recorded_as_a_checked_one_is(steps: list[tuple[str, int, int]], first: int) -> None:
    by_checks, at_once = ProducerState(), ProducerState()
    sequences, epochs = dict.fromkeys((7, 8), first), dict.fromkeys((7, 8), 0)
    committed, offset = (dict(sequences), dict(epochs)), 0
    for kind, count, producer in steps:
        if kind in ("commit", "revert"):
            assert at_once.as_of(offset // 2) == by_checks.as_of(offset // 2)
            for state in (by_checks, at_once):
                getattr(state, kind)()
            assert at_once.entries == by_checks.entries
            if kind == "commit":
                committed = dict(sequences), dict(epochs)
            else:
                sequences, epochs = dict(committed[0]), dict(committed[1])
            continue
        if kind == "marker":
            ending = header(-1, producer=producer, epoch=epochs[producer])
            for state in (by_checks, at_once):
                state.record_marker(ending, offset, Marker(aborts=False, coordinator_epoch=0))
            offset += 1
            continue
        if kind == "epoch":
            epochs[producer], sequences[producer] = epochs[producer] + 1, 0
        sequence = sequences[producer] + {"gap": 1, "again": -1}.get(kind, 0) & MAX
        transactional = TRANSACTIONAL if kind == "transaction" else 0
        batch = header(sequence, count=count, producer=producer, epoch=epochs[producer], attributes=transactional)
        told = _told(by_checks, batch)
        if told is FRESH:
            by_checks.record_stamped(batch, offset, 5)
        if not at_once.record_next(batch, offset, 5):
            assert _told(at_once, batch) == told
            if told is FRESH:
                at_once.record_stamped(batch, offset, 5)
        else:
            assert told is FRESH
        if told is FRESH:
            sequences[producer] = sequence + count & MAX
            offset += count
        assert at_once.entries == by_checks.entries
        assert at_once.transactions.ongoing == by_checks.transactions.ongoing


def _told(state: ProducerState, batch: BatchHeader) -> object:
    try:
        return state.check(batch)
    except BatchError as error:
        return error.code
