"""What a simulated consumer of committed records keeps of a fetch, and what markers alone say of the same batches."""

from libs.wire.record_batches.markers import Marker, build_marker
from libs.wire.record_batches.records import Record, build_batch
from tests.gateway.kafka_client import Fetched
from tests.simulation.cluster.committed_records import committed_by_markers, committed_in, value_of


def batch(offset: int, value: int, producer_id: int = -1) -> bytes:
    records = [Record(None, b"%d" % value), Record(None, b"%d" % (value + 1))]
    transactional = producer_id >= 0
    return bytes(build_batch(records, base_offset=offset, producer_id=producer_id, transactional=transactional))


def marker(offset: int, producer_id: int, *, aborts: bool) -> bytes:
    return bytes(build_marker(Marker(aborts, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=0, base_offset=offset))


LOG = (
    batch(0, 10, producer_id=1),
    batch(2, 20, producer_id=2),
    batch(4, 30),
    marker(6, 1, aborts=True),
    batch(7, 40, producer_id=1),
    marker(9, 2, aborts=False),
    marker(10, 1, aborts=False),
)
ABORTED = [(1, 0)]
COMMITTED = [20, 21, 30, 31, 40, 41]


def read(position: int, batches: tuple[bytes, ...], aborted: list[tuple[int, int]]) -> tuple[list[int], int]:
    found = committed_in(Fetched("t", 0, 0, 11, b"".join(batches), aborted=aborted), position)
    return [value_of(record) for record in found.records], found.position


def test_aborted_records_and_markers_are_left_out() -> None:
    assert read(0, LOG, ABORTED) == (COMMITTED, 11)


def test_a_producer_is_believed_again_after_its_abort() -> None:
    assert read(4, LOG[2:], ABORTED) == ([30, 31, 40, 41], 11)


def test_a_reader_that_nobody_tells_of_an_abort_sees_its_records() -> None:
    """So a fetch that lists too little is noticed."""
    assert read(0, LOG, [])[0] == [10, 11, *COMMITTED]


def test_records_before_the_position_are_left_out() -> None:
    assert read(3, LOG[1:], [])[0] == COMMITTED[1:]


def test_an_answer_without_a_whole_batch_moves_nothing() -> None:
    assert read(5, (LOG[2][:-1],), []) == ([], 5)


def test_markers_alone_say_the_same() -> None:
    assert sorted(value_of(record) for record in committed_by_markers(LOG)) == COMMITTED


def test_what_has_no_marker_yet_is_not_committed() -> None:
    assert [value_of(record) for record in committed_by_markers(LOG[:6])] == [30, 31, 20, 21]
