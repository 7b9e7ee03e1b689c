"""The reasons of gaps, from raw batches as a broker would send them."""

from libs.client.fetch import FetchedBatches
from libs.wire.record_batches.batch_layout import HEADER
from libs.wire.record_batches.markers import Marker, build_marker
from libs.wire.record_batches.records import Record, build_batch
from services.pipeline.audit.findings import Kind
from services.pipeline.audit.log_gaps import explain

LAST_OFFSET_DELTA = 6
"""The place of that field in a batch's header."""


def batch(base: int, count: int, producer: int = -1) -> bytearray:
    records = [Record(b"k", b"v", 1000) for _ in range(count)]
    return build_batch(records, base_offset=base, producer_id=producer, transactional=producer >= 0)


def marker(base: int, producer: int, *, aborts: bool) -> bytearray:
    return build_marker(Marker(aborts, 0), producer_id=producer, producer_epoch=0, timestamp_ms=1000, base_offset=base)


def cleaned(base: int, count: int, offsets: int) -> bytearray:
    """A batch that once had `offsets` records, of which compaction kept the first `count`."""
    made = batch(base, count)
    fields = list(HEADER.unpack_from(made))
    fields[LAST_OFFSET_DELTA] = offsets - 1
    HEADER.pack_into(made, 0, *fields)
    return made


def fetched(*batches: bytearray, aborted: tuple[tuple[int, int], ...] = ()) -> FetchedBatches:
    return FetchedBatches(b"".join(batches), aborted)


def test_a_marker_is_a_control_record() -> None:
    answer = fetched(batch(0, 5, 7), marker(5, 7, aborts=False), batch(6, 2))
    assert explain(answer, [(5, 5)], is_compacted=False) == ([(Kind.CONTROL, 5, 5)], 8)


def test_records_of_an_aborted_transaction_are_told_from_its_marker() -> None:
    answer = fetched(batch(0, 5, 7), marker(5, 7, aborts=True), batch(6, 2), aborted=((7, 0),))
    assert explain(answer, [(0, 5)], is_compacted=False)[0] == [(Kind.ABORTED, 0, 4), (Kind.CONTROL, 5, 5)]


def test_a_producer_that_commits_after_an_abort_has_not_aborted_twice() -> None:
    answer = fetched(batch(0, 2, 7), marker(2, 7, aborts=True), batch(3, 2, 7), marker(5, 7, aborts=False), aborted=((7, 0),))
    runs, _ = explain(answer, [(0, 2), (3, 4), (5, 5)], is_compacted=False)
    assert runs == [(Kind.ABORTED, 0, 1), (Kind.CONTROL, 2, 2), (Kind.UNREAD, 3, 4), (Kind.CONTROL, 5, 5)]


def test_the_marker_of_an_earlier_abort_counts_although_no_gap_is_there() -> None:
    answer = fetched(batch(0, 1), batch(1, 2, 7), marker(3, 7, aborts=True), batch(4, 2, 7), aborted=((7, 1),))
    assert explain(answer, [(4, 5)], is_compacted=False)[0] == [(Kind.UNREAD, 4, 5)]


def test_another_producer_between_is_not_aborted() -> None:
    answer = fetched(batch(0, 2, 7), batch(2, 2, 8), marker(4, 7, aborts=True), aborted=((7, 0),))
    assert explain(answer, [(0, 3)], is_compacted=False)[0] == [(Kind.ABORTED, 0, 1), (Kind.UNREAD, 2, 3)]


def test_holes_inside_a_batch_and_between_batches_are_compaction_where_that_is_the_policy() -> None:
    answer = fetched(cleaned(0, 2, 5), batch(9, 1))
    assert explain(answer, [(2, 8)], is_compacted=True)[0] == [(Kind.COMPACTED, 2, 4), (Kind.COMPACTED, 5, 8)]
    assert explain(answer, [(2, 8)], is_compacted=False)[0] == [(Kind.UNEXPLAINED_GAP, 2, 4), (Kind.UNEXPLAINED_GAP, 5, 8)]


def test_a_record_inside_a_cleaned_batch_that_no_reader_returned_is_named() -> None:
    answer = fetched(cleaned(0, 2, 5))
    assert explain(answer, [(1, 4)], is_compacted=True)[0] == [(Kind.UNREAD, 1, 1), (Kind.COMPACTED, 2, 4)]


def test_what_the_batches_do_not_reach_stays_open() -> None:
    runs, reached = explain(fetched(batch(0, 2), marker(2, 7, aborts=False)), [(2, 9)], is_compacted=False)
    assert (runs, reached) == ([(Kind.CONTROL, 2, 2)], 3)
    assert explain(fetched(), [(2, 9)], is_compacted=False) == ([], -1)
