"""The rules of compaction: which records stay and which go, one test each."""

from pathlib import Path

import pytest
from crc32c import crc32c

from libs.commitlog.cleaner.job import ProducerEnd
from libs.commitlog.model.errors import LogDamaged
from libs.wire.record_batches.batches import DELETE_HORIZON, HEADER_SIZE
from libs.wire.record_batches.compression import compress
from libs.wire.record_batches.records import Record, build_batch, iter_records
from tests.commitlog.compacted import NOW_MS, RETENTION_MS, CompactedPartition, pairs
from tests.wire.time_bounds import out_of_bounds


@pytest.fixture
def partition(tmp_path: Path) -> CompactedPartition:
    return CompactedPartition(tmp_path)


def close(partition: CompactedPartition) -> None:
    """Ends the cleaned part with a record that stays, so that the rules of the last batch do not matter."""
    partition.put_values((b"last", b"v"))
    partition.roll()


# --- records


def test_the_latest_record_of_each_key_stays_at_its_offset(partition: CompactedPartition) -> None:
    partition.put_values((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    partition.put_values((b"b", b"2"))
    close(partition)
    result = partition.clean()
    assert pairs(partition.records()) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"last", b"v")]
    assert (result.records_read, result.records_kept, result.keys, result.end_offset) == (5, 3, 3, 5)


def test_records_without_a_key_go(partition: CompactedPartition) -> None:
    partition.put_values((None, b"1"), (b"a", b"1"))
    close(partition)
    partition.clean()
    assert partition.offsets() == [1, 2]


def test_a_batch_of_which_all_stays_keeps_its_bytes(partition: CompactedPartition) -> None:
    for codec in range(5):
        partition.put_values((b"a%d" % codec, b"v" * 50), (b"b%d" % codec, b"v" * 50), codec=codec)
    close(partition)
    before = partition.log_of(0).read_bytes()
    partition.clean()
    assert partition.log_of(0).read_bytes() == before


@pytest.mark.parametrize("codec", range(5))
def test_the_remaining_records_of_a_batch_keep_their_place_and_their_bytes(partition: CompactedPartition, codec: int) -> None:
    headers = (("h", b"x"), ("null", None))
    partition.put(
        Record(b"a", b"1", NOW_MS - 9), Record(b"b", b"v" * 90, NOW_MS - 20, headers), Record(b"c", b"3", NOW_MS - 5),
        codec=codec, producer_id=4, base_sequence=17,
    )  # fmt: skip
    before = partition.headers()[0]
    old = partition.records()
    partition.put_values((b"a", b"2"), (b"c", b"2"))
    close(partition)
    partition.clean()
    after = partition.headers()[0]
    assert partition.records()[0] == old[1]
    unchanged = (
        "base_offset",
        "leader_epoch",
        "attributes",
        "last_offset_delta",
        "producer_id",
        "producer_epoch",
        "base_sequence",
    )
    for field in unchanged:
        assert getattr(after, field) == getattr(before, field)
    assert (after.record_count, after.max_timestamp, after.last_sequence) == (1, NOW_MS - 20, 19)


def test_keys_of_any_length_are_distinct(partition: CompactedPartition) -> None:
    keys = [b"", b"x", b"x" * 39, b"x" * 40, b"x" * 41, b"x" * 5000, b"x" * 4999 + b"y"]
    for _ in range(2):
        for key in keys:
            partition.put_values((key, b"v"))
    close(partition)
    partition.clean()
    assert partition.offsets() == [*range(len(keys), 2 * len(keys)), 2 * len(keys)]


def test_records_before_the_dirty_part_are_superseded_too(partition: CompactedPartition) -> None:
    partition.put_values((b"a", b"1"), (b"b", b"1"))
    partition.roll()
    partition.clean()
    partition.put_values((b"a", b"2"))
    partition.roll()
    partition.clean()
    assert pairs(partition.records()) == [(1, b"b", b"1"), (2, b"a", b"2")]


def test_a_batch_with_the_time_of_its_append_keeps_it(partition: CompactedPartition) -> None:
    partition.put_values((b"a", b"1"), (b"b", None), log_append_time_ms=NOW_MS + 77)
    partition.put_values((b"a", b"2"))
    close(partition)
    partition.clean()
    header, record = partition.headers()[0], partition.records()[0]
    assert header.is_log_append_time
    assert (header.max_timestamp, record.offset, record.timestamp) == (NOW_MS + 77, 1, NOW_MS + 77)


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize("tombstone", [False, True])
@pytest.mark.parametrize(
    ("base_timestamp", "delta", "read_as"),
    [
        (NOW_MS, (1 << 63) - 1, NOW_MS - 1 - (1 << 63)),
        (1 << 62, 1 << 62, -(1 << 63)),
        (-(1 << 63), -1, (1 << 63) - 1),
        (-(1 << 63), (1 << 63) - 1, -1),
    ],
)
def test_times_that_no_64_bits_hold_stay_what_a_java_client_reads(
    partition: CompactedPartition, base_timestamp: int, delta: int, read_as: int, *, tombstone: bool, codec: int
) -> None:
    """Its producer chose both numbers, so that their sum must not make the log uncleanable."""
    value = None if tombstone else b"v"
    batch = out_of_bounds(base_timestamp, delta, codec, 0, ((b"old", b"v"), (b"a", value), (b"b", b"v")))
    partition.log_of(0).write_bytes(batch)
    partition.next_offset = 3
    partition.put_values((b"old", b"new"))
    close(partition)
    partition.clean()
    header, records = partition.headers()[0], partition.records()[:2]
    assert [(record.key, record.timestamp) for record in records] == [(b"a", read_as), (b"b", base_timestamp)]
    assert header.max_timestamp == max(read_as, base_timestamp)
    assert bool(header.attributes & DELETE_HORIZON) is tombstone


# --- tombstones (KIP-534, KAFKA-8522)


@pytest.mark.parametrize("codec", range(5))
def test_a_tombstone_waits_for_its_horizon_and_goes(partition: CompactedPartition, codec: int) -> None:
    partition.put_values((b"a", b"1"), codec=codec)
    partition.put_values((b"b", b"1"), (b"a", None), codec=codec)
    close(partition)
    before = partition.records()
    partition.clean()
    assert partition.records() == before[1:]
    header = partition.headers()[0]
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == NOW_MS + RETENTION_MS
    partition.now_ms += RETENTION_MS - 1
    partition.clean(first_dirty_offset=0)
    assert partition.records() == before[1:]
    assert partition.headers()[0] == header
    partition.now_ms += 1
    partition.clean(first_dirty_offset=0)
    assert partition.records() == [before[1], before[3]]


def test_a_tombstone_that_is_superseded_goes_at_once(partition: CompactedPartition) -> None:
    partition.put_values((b"a", None))
    partition.put_values((b"a", b"2"))
    partition.roll()
    partition.clean()
    assert partition.offsets() == [1]


def test_a_horizon_that_would_burst_the_segment_waits(partition: CompactedPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    partition.put_values(*[(b"%d" % i, None) for i in range(100)])
    close(partition)
    size = partition.log_of(0).stat().st_size
    monkeypatch.setattr("libs.commitlog.cleaner.copying.POSITION_MAX", size + 50)
    before = partition.log_of(0).read_bytes()
    partition.clean()
    assert partition.log_of(0).read_bytes() == before


# --- transactions


def test_aborted_data_supersedes_nothing_and_goes(partition: CompactedPartition) -> None:
    partition.put_values((b"a", b"1"))
    partition.put_values((b"a", b"2"), producer_id=7, transactional=True)
    marker = partition.end_transaction(7, aborts=True)
    close(partition)
    partition.producers.clear()
    partition.clean()
    assert pairs(partition.records()) == [(0, b"a", b"1"), (3, b"last", b"v")]
    assert partition.markers() == [marker]


def test_data_of_an_aborted_transaction_goes_though_its_marker_is_in_the_active_segment(partition: CompactedPartition) -> None:
    partition.put_values((b"a", b"1"))
    partition.put_values((b"a", b"2"), producer_id=7, transactional=True)
    partition.put_values((b"last", b"v"))
    partition.roll()
    partition.end_transaction(7, aborts=True)
    partition.producers.clear()
    partition.clean()
    assert pairs(partition.records()) == [(0, b"a", b"1"), (2, b"last", b"v")]


def test_the_index_names_an_aborted_transaction_as_long_as_a_batch_of_it_was_there(partition: CompactedPartition) -> None:
    partition.put_values((b"a", b"2"), producer_id=7, transactional=True)
    marker = partition.end_transaction(7, aborts=True)
    close(partition)
    index = partition.path / f"{0:020d}.txnindex"
    partition.clean()
    # The data batch is the last of its producer: it stays, empty.
    assert partition.headers()[0].record_count == 0
    entry = (0).to_bytes(2, "big") + b"".join(n.to_bytes(8, "big") for n in (7, 0, marker, marker + 1))
    assert index.read_bytes() == entry
    partition.producers.clear()
    partition.clean(first_dirty_offset=0)
    assert partition.headers()[0].base_offset == marker
    assert index.read_bytes() == entry
    partition.clean(first_dirty_offset=0)
    assert not index.exists()


@pytest.mark.parametrize("aborts", [True, False])
def test_a_marker_waits_until_nothing_of_its_transaction_is_left_and_then_for_its_horizon(
    partition: CompactedPartition, aborts: bool
) -> None:
    partition.put_values((b"a", b"1"), producer_id=7, transactional=True)
    marker = partition.end_transaction(7, aborts=aborts)
    partition.put_values((b"a", b"2"))
    close(partition)
    partition.producers.clear()
    partition.clean(first_dirty_offset=0)  # takes the data
    assert partition.offsets() == [2, 3]
    partition.now_ms += 10 * RETENTION_MS
    assert not partition.headers()[0].attributes & DELETE_HORIZON
    partition.clean(first_dirty_offset=0)  # finds no data: the horizon begins
    assert partition.markers() == [marker]
    assert partition.headers()[0].base_timestamp == partition.now_ms + RETENTION_MS
    partition.now_ms += RETENTION_MS - 1
    partition.clean(first_dirty_offset=0)
    assert partition.markers() == [marker]
    partition.now_ms += 1
    partition.clean(first_dirty_offset=0)
    assert partition.markers() == []


def test_a_marker_stays_as_long_as_its_producers_last_entry_is_it(partition: CompactedPartition) -> None:
    marker = partition.end_transaction(7, aborts=False, epoch=3)
    close(partition)
    partition.producers = {7: ProducerEnd(-1, 3)}
    for _ in range(3):
        partition.clean(first_dirty_offset=0)
        partition.now_ms += RETENTION_MS + 1
    header = partition.headers()[0]
    assert (header.base_offset, header.record_count, header.producer_epoch) == (marker, 0, 3)
    partition.producers.clear()
    partition.clean(first_dirty_offset=0)
    assert len(partition.headers()) == 1


def test_an_abort_that_no_index_names_stops_the_cleaner(partition: CompactedPartition) -> None:
    """To believe the index would keep the aborted record and drop the one before it."""
    partition.put_values((b"a", b"1"))
    partition.put_values((b"a", b"2"), producer_id=7, transactional=True)
    partition.end_transaction(7, aborts=True)
    close(partition)
    before = partition.content()
    with pytest.raises(LogDamaged, match="aborts data of producer 7"):
        partition.clean(aborted=())
    assert partition.content() == before


# --- empty batches (KAFKA-8335)


def test_the_last_batch_of_a_producer_keeps_its_sequence_without_its_records(partition: CompactedPartition) -> None:
    partition.put_values((b"a", b"1"), producer_id=5)
    partition.put_values((b"a", b"2"), (b"b", b"1"), codec=4, producer_id=5)
    partition.put_values((b"a", b"3"), (b"b", b"2"))
    close(partition)
    before = partition.headers()[1]
    partition.clean()
    kept = partition.headers()[0]
    assert (kept.base_offset, kept.last_offset, kept.base_sequence, kept.last_sequence) == (1, 2, 1, 2)
    assert (kept.record_count, kept.size, kept.codec) == (0, HEADER_SIZE, 0)
    assert kept.max_timestamp == before.max_timestamp
    assert partition.offsets() == [3, 4, 5]


def test_empty_batches_go_when_their_producer_is_forgotten(partition: CompactedPartition) -> None:
    for i in range(20):
        partition.put_values((b"a", b"1"), producer_id=i)
    close(partition)
    partition.clean()
    assert len(partition.headers()) == 21
    partition.producers.clear()
    partition.clean(first_dirty_offset=0)
    assert len(partition.headers()) == 2


def test_only_the_last_batch_of_the_cleaned_range_stays_for_its_offset(partition: CompactedPartition) -> None:
    for round_ in range(5):
        for _ in range(3):
            partition.put_values((None, b"never kept"))
        partition.roll()
        partition.clean()
        empty = [header for header in partition.headers() if header.record_count == 0]
        assert [header.last_offset for header in empty] == [3 * round_ + 2]


# --- how far


def test_a_gap_at_the_end_of_a_segment_does_not_hold_the_cleaner_up(partition: CompactedPartition) -> None:
    """KAFKA-8764: the next pass begins behind the gap; otherwise passes would never end."""
    partition.put_values((b"a", b"1"))
    partition.skip(100)
    partition.roll()
    partition.put_values((b"b", b"1"))
    partition.skip(50)
    partition.roll()
    assert partition.clean(map_bytes=1).end_offset == 101
    assert partition.clean(map_bytes=1).end_offset == 152


def test_a_map_that_fills_ends_the_round_where_its_segment_begins(partition: CompactedPartition) -> None:
    for segment in range(4):
        for i in range(10):
            partition.put_values(*[(b"%d-%d-%d" % (segment, i, n), b"v") for n in range(10)])
        partition.roll()
    ends = [partition.clean(map_bytes=60_000).end_offset]
    while ends[-1] < 400:
        ends.append(partition.clean(map_bytes=60_000).end_offset)
    assert len(ends) > 1
    assert set(ends) <= {100, 200, 300, 400}


def test_a_map_that_is_too_small_for_a_segment_gets_on_by_batches(partition: CompactedPartition) -> None:
    for i in range(50):
        partition.put_values(*[(b"%d" % n, b"%d" % i) for n in range(10)])
    close(partition)
    ends = [0]
    while ends[-1] < 501:
        before = [bytes(batch.view) for batch in partition.batches()]
        ends.append(partition.clean(map_bytes=3000).end_offset)
        assert ends[-2] < ends[-1]
        untouched = [bytes(b.view) for b in partition.batches() if b.header.base_offset >= ends[-1]]
        assert before[len(before) - len(untouched) :] == untouched
        of_before = [n for n in partition.offsets() if n < min(ends[-1], 500)]
        assert of_before == list(range(min(ends[-1], 500)))[-10:]
    assert len(ends) > 5
    assert partition.offsets() == list(range(490, 501))


def test_nothing_behind_the_end_of_a_round_is_changed(partition: CompactedPartition) -> None:
    partition.put_values((b"a", b"1"))
    partition.put_values((b"a", b"2"), (None, b"x"), (b"t", None))
    partition.put_values((b"b", b"1"), producer_id=7, transactional=True)
    marker = partition.end_transaction(7, aborts=True)
    partition.put_values((b"z", b"1"))
    partition.roll()
    before = partition.log_of(0).read_bytes()
    assert partition.clean(map_bytes=1).end_offset == 1
    assert partition.log_of(0).read_bytes() == before
    # The aborted data is still there, and so is its index.
    assert (partition.path / f"{0:020d}.txnindex").stat().st_size == 34
    assert partition.markers() == [marker]


# --- what is no batch, and what is no record


def damaged(partition: CompactedPartition, message: str) -> None:
    before = partition.content()
    with pytest.raises(LogDamaged, match=message) as caught:
        partition.clean()
    assert str(partition.log_of(0)) in str(caught.value)
    assert partition.content() == before


def fill(partition: CompactedPartition) -> int:
    """Two batches; returns where the second one begins."""
    partition.put_values((b"a", b"1"))
    position = partition.log_of(0).stat().st_size
    partition.put_values((b"b", b"1"), (b"c", b"1"))
    partition.roll()
    return position


def test_a_bit_that_flipped_stops_the_cleaner(partition: CompactedPartition) -> None:
    position = fill(partition)
    partition.change(0, lambda content: content.__setitem__(-3, content[-3] ^ 1))
    damaged(partition, f"position {position}: the batch does not match its CRC")


@pytest.mark.parametrize(("at", "byte"), [(16, 1), (8, 0x7F), (8, 0x80), (11, 5), (23, 0x80), (57, 0x80)])
def test_a_header_that_is_none_stops_the_cleaner(partition: CompactedPartition, at: int, byte: int) -> None:
    position = fill(partition)
    partition.change(0, lambda content: content.__setitem__(position + at, byte))
    damaged(partition, f"position {position}: no batch")


def test_offsets_that_do_not_ascend_stop_the_cleaner(partition: CompactedPartition) -> None:
    position = fill(partition)
    partition.change(0, lambda content: content.__setitem__(position + 7, 0))
    damaged(partition, f"position {position}: offsets 0 to 1")


def test_a_file_that_is_shorter_than_it_was_stops_the_cleaner(partition: CompactedPartition) -> None:
    fill(partition)
    job = partition.job()
    partition.change(0, lambda content: content.__delitem__(slice(-1, None)))
    with pytest.raises(LogDamaged, match="too early"):
        partition.clean(segments=job.segments)


def test_a_tail_too_short_for_a_batch_stops_the_cleaner(partition: CompactedPartition) -> None:
    fill(partition)
    size = partition.log_of(0).stat().st_size
    partition.change(0, lambda content: content.extend(b"\0" * 30))
    damaged(partition, f"position {size}: a batch begins 30 bytes before the end")


def hostile(body: bytes, *, count: int, codec: int = 0) -> bytearray:
    """A batch whose CRC is right and whose records are `body`."""
    batch = build_batch([Record(b"k", b"v", NOW_MS)] * count, base_offset=0, leader_epoch=3)
    header = bytearray(batch[:HEADER_SIZE])
    blob = compress(codec, body)
    header[8:12] = (HEADER_SIZE - 12 + len(blob)).to_bytes(4, "big")
    header[22] = codec
    whole = header + blob
    whole[17:21] = crc32c(bytes(whole[21:])).to_bytes(4, "big")
    return whole


RECORD = bytes((7 * 2, 0, 0, 0, 2, 75, 2, 86))
NONSENSE = {
    "a length beyond the batch": (b"\x7e" + RECORD[1:], "fit"),
    "a length that is negative": (b"\x0f" + RECORD[1:], "negative"),
    "an offset beyond the batch": (RECORD[:3] + b"\x04" + RECORD[4:], "fit"),
    "an offset before the batch": (RECORD[:3] + b"\x01" + RECORD[4:], "negative"),
    "a key beyond its record": (RECORD[:4] + b"\x20" + RECORD[5:], "fit"),
    "a key of length minus two": (RECORD[:4] + b"\x03" + RECORD[5:], "negative"),
    "a number without an end": (b"\xff" * 12 + RECORD, "does not end"),
    "a number cut short": (b"\xff", "within a number"),
    "bytes behind the last record": (RECORD + b"\0", "follow"),
}


def unreadable(partition: CompactedPartition, batch: bytearray, message: str) -> None:
    """Puts a batch that matches its CRC, as a client wrote it, amid others. It stays as it is, and supersedes nothing."""
    partition.put_values((b"a", b"1"), (b"K", None))
    partition.put_values((b"K", b"1"), (b"b", b"1"))
    batch[:8] = (4).to_bytes(8, "big")
    partition.log_of(0).write_bytes(partition.log_of(0).read_bytes() + batch)
    partition.next_offset = 6
    partition.put_values((b"a", b"2"), (b"b", None))
    close(partition)
    for _ in range(2):
        result = partition.clean(first_dirty_offset=0)
        assert (result.unopened, result.first_unopened) == (1, 4)
        assert message in result.why_unopened
        partition.now_ms += RETENTION_MS + 1
    first, kept, *others = partition.batches()
    assert [record.offset for record in iter_records(first.view)] == [2], (
        "the value of K, which the bytes name in their beginning"
    )
    assert bytes(kept.view)[8:] == bytes(batch)[8:]
    last = [(r.offset, r.key, r.value) for each in others for r in iter_records(each.view)]
    assert last == [(6, b"a", b"2"), (7, b"b", None), (8, b"last", b"v")], "the tombstone behind it stays"


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize("what", NONSENSE)
def test_records_that_are_none_stay_and_all_else_is_cleaned(partition: CompactedPartition, what: str, codec: int) -> None:
    """It was taken for damage, and the log was not compacted any more."""
    body, message = NONSENSE[what]
    is_followed = not codec and what in ("a number cut short", "a length beyond the batch")  # by the bytes of the next batch
    unreadable(partition, hostile(RECORD + body, count=2, codec=codec), "" if is_followed else message)


def test_a_blob_that_is_not_of_its_codec_stays(partition: CompactedPartition) -> None:
    batch = hostile(RECORD * 2, count=2)
    batch[22] = 3
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    unreadable(partition, batch, "lz4")


ZEROS = b"\0" * (2 << 20)


@pytest.fixture
def opens_a_megabyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.commitlog.cleaner.source.DECOMPRESSED_BYTES_MAX", 1 << 20)


@pytest.mark.usefixtures("opens_a_megabyte")
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_that_is_too_large_to_open_stays_and_all_else_is_cleaned(partition: CompactedPartition, codec: int) -> None:
    """It was taken for damage, and the log was not compacted any more."""
    partition.put_values((b"a", b"1"), (b"b", b"1"))
    partition.put_values((b"a", ZEROS), codec=codec)
    partition.put_values((b"a", b"2"), (b"b", b"2"))
    partition.put_values((b"b", b"3"))
    partition.roll()
    result = partition.clean()
    assert partition.offsets() == [2, 3, 5]
    assert (result.unopened, result.first_unopened) == (1, 2)
    assert result.records_kept == 3


@pytest.mark.usefixtures("opens_a_megabyte")
def test_a_tombstone_behind_it_stays_since_the_deleted_value_may_be_in_it(partition: CompactedPartition) -> None:
    partition.put_values((b"before", None))
    partition.put_values((b"a", ZEROS), codec=4)
    partition.put_values((b"a", None))
    partition.put_values((b"z", b"1"))
    partition.roll()
    for _ in range(3):
        partition.clean(first_dirty_offset=0)
        partition.now_ms += RETENTION_MS + 1
    assert partition.offsets() == [1, 2, 3]


@pytest.mark.usefixtures("opens_a_megabyte")
def test_it_goes_if_its_transaction_was_aborted(partition: CompactedPartition) -> None:
    partition.put_values((b"a", ZEROS), codec=4, producer_id=7, transactional=True)
    partition.end_transaction(7, aborts=True)
    partition.put_values((b"z", b"1"))
    partition.roll()
    assert not partition.clean().unopened
    assert partition.offsets() == [2]


@pytest.mark.usefixtures("opens_a_megabyte")
def test_the_marker_of_its_transaction_stays(partition: CompactedPartition) -> None:
    partition.put_values((b"a", ZEROS), codec=4, producer_id=7, transactional=True)
    marker = partition.end_transaction(7, aborts=False)
    partition.put_values((b"z", b"1"))
    partition.producers.clear()
    partition.roll()
    for _ in range(3):
        partition.clean(first_dirty_offset=0)
        partition.now_ms += RETENTION_MS + 1
    assert partition.markers() == [marker]
