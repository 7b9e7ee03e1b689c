"""The table of packed producers: it behaves as a dict, its views do not change, and no step costs what all producers cost."""

import random
import struct
from itertools import pairwise

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from libs.commitlog.model.errors import DirectoryDamaged
from libs.commitlog.opening.resume_points import ResumePoint, parse_resume
from libs.commitlog.producers import producer_table
from libs.commitlog.producers.producer_entries import CachedBatch, ProducerEntry, pack_entry, unpack_entry
from libs.commitlog.producers.producer_snapshot import parse_snapshot
from libs.commitlog.producers.producer_table import BUCKET_MAX, BUCKET_SIZE, SPREAD, PackedProducers, ProducerTable
from libs.commitlog.segments.segment_progress import SegmentProgress
from tests.support.whole_contents import format_resume, format_snapshot

DAY = 86_400_000
PROGRESS = SegmentProgress(1, 2, 3, 4, 5, 6, 7)


def entry(offset: int, *, batches: int = 1, first_offset: int = -1) -> ProducerEntry:
    cached = tuple([CachedBatch(offset + each, offset + each, 0, 1000) for each in range(batches)])
    return ProducerEntry(3, cached, 7, 1000 + offset, first_offset)


def table_of(count: int, *, step: int = 1) -> ProducerTable:
    table = ProducerTable()
    for each in range(count):
        table[each * step] = entry(each)
    return table


def forget_all(table: ProducerTable, now_ms: int, work_max: int = 1 << 30) -> list[int]:
    """Expires until the pass is over. The numbers that each call forgot."""
    forgotten = [table.expire(now_ms, DAY, work_max)]
    while table.is_expiring:
        forgotten.append(table.expire(now_ms, DAY, work_max))
    return forgotten


def largest_bucket(table: PackedProducers) -> int:
    return max(map(len, table.slices()))


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "remove", "view", "expire"]), st.integers(0, 40), st.integers(0, 9)), max_size=120
    ),
    size=st.integers(1, 5),
)
def test_a_table_is_a_dict_and_its_views_stay_as_they_were(steps: list[tuple[str, int, int]], size: int) -> None:
    table, model = ProducerTable(), dict[int, ProducerEntry]()
    views: list[tuple[PackedProducers, dict[int, ProducerEntry]]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producer_table, "BUCKET_SIZE", size)
        for number, (step, producer_id, value) in enumerate(steps):
            if step == "put":
                table[producer_id * 7919] = model[producer_id * 7919] = entry(value, batches=value % 6)
            elif step == "view":
                views.append((table.view(), dict(model)))
            elif step == "remove" and producer_id * 7919 in model:
                del table[producer_id * 7919], model[producer_id * 7919]
            elif step == "expire":
                assert forget_all(table, number) == [0]
            assert table == model
            assert len(table) == len(model)
    for view, expected in views:
        assert view == expected
        assert dict(view.items()) == expected


@pytest.mark.parametrize("step", [1, 8, 16, 1000, 1024, SPREAD - 1])
def test_producers_spread_evenly(step: int) -> None:
    table = table_of(10_000, step=step)
    assert largest_bucket(table) < 6 * BUCKET_SIZE
    assert len(list(table.slices())) > 10_000 // BUCKET_SIZE // 2


def test_ids_that_were_made_up_for_one_bucket_push_each_other_out() -> None:
    table = table_of(3 * BUCKET_MAX, step=SPREAD)
    while table.evict(1 << 30, 100):
        pass
    assert largest_bucket(table) == BUCKET_MAX
    assert (3 * BUCKET_MAX - 1) * SPREAD in table


def test_a_producer_expires_once_it_was_silent_for_so_long_and_an_open_transaction_never() -> None:
    table = table_of(1000)
    table[5] = entry(5, first_offset=4)
    assert sum(forget_all(table, 0)) == 0
    table[6] = entry(6)
    assert sum(forget_all(table, DAY - 1)) == 0
    assert sum(forget_all(table, DAY)) == 998
    assert set(table) == {5, 6}
    assert sum(forget_all(table, 2 * DAY - 2)) == 0
    assert sum(forget_all(table, 2 * DAY - 1)) == 1
    assert set(table) == {5}


def test_a_turn_of_expiry_looks_at_a_part() -> None:
    table = table_of(20_000)
    assert len(forget_all(table, 0, 1000)) > 15
    forgotten = forget_all(table, DAY, 1000)
    assert sum(forgotten) == 20_000
    assert max(forgotten) < 1000 + 2 * largest_bucket(table_of(20_000))


def test_active_producers_keep_few_marks() -> None:
    table = ProducerTable()
    for now_ms in range(0, 2 * DAY, 300_000):
        table[1] = entry(1)
        forget_all(table, now_ms)
    assert table.marks < 2 * producer_table.MARKS


def test_those_that_were_silent_the_longest_are_evicted_first() -> None:
    table = table_of(100)
    table[0] = entry(200)
    table[1] = entry(201, first_offset=201)
    table[2] = entry(2, first_offset=2)
    assert table.evict(10, 60) == 60
    assert len(table) == 40
    assert {0, 1, 2, *range(63, 100)} == set(table)
    assert table.evict(1, 1000) == 38
    assert set(table) == {1, 2}
    assert table.evict(1, 1000) == 0


def test_in_a_large_table_the_evicted_are_among_the_oldest() -> None:
    table = table_of(10_000)
    table.evict(8000, 10_000)
    assert len(table) == 8000
    assert sum(each in table for each in range(1000)) < 50
    assert sum(each in table for each in range(5000, 10_000)) == 5000


def test_ids_that_avoid_a_producers_bucket_do_not_push_it_out() -> None:
    table, victim = table_of(10_000), 9_999
    made_up = (each for each in range(10_000, 1 << 40) if each % SPREAD % 64 != victim % SPREAD % 64)  # more than 64 buckets
    for _ in range(20_000):
        table[next(made_up)] = entry(1)
        table.evict(10_000, 200)
    assert len(table) == 10_000
    assert victim in table


def kafka_snapshot(entries: dict[int, ProducerEntry]) -> bytes:
    """As Kafka's ProducerStateManager writes it, field by field."""
    body = struct.pack(">i", len(entries))
    for producer_id, each in entries.items():
        last = each.batches[-1] if each.batches else CachedBatch(-1, -1, 0, -1)
        body += struct.pack(">qhiqi", producer_id, each.epoch, *last[:3])
        body += struct.pack(">qiq", each.last_timestamp, each.coordinator_epoch, each.transaction_first_offset)
    return struct.pack(">hI", 1, crc32c(body)) + body


@pytest.mark.parametrize("count", [0, 1, 7, 1500])
def test_saves_of_many_producers_are_read_as_they_were_written(count: int) -> None:
    chance = random.Random(count)
    entries = {
        chance.randrange(1 << 63): entry(
            chance.randrange(1 << 30), batches=chance.randrange(6), first_offset=chance.choice([-1, -1, 17])
        )
        for _ in range(count)
    }
    point = ResumePoint(77, PROGRESS, ProducerTable(entries).view(), {1: 2}, (), {1: 3})
    assert parse_resume(format_resume(point), "") == point._replace(producers=entries)
    read = parse_snapshot(kafka_snapshot(entries), "")
    ours = parse_snapshot(format_snapshot(entries), "")
    assert read == ours
    assert set(read) == set(entries)
    for producer_id, each in entries.items():
        kept = tuple([batch._replace(timestamp=each.last_timestamp) for batch in each.batches[-1:]])
        assert read[producer_id] == each._replace(batches=kept)
    one = dict(list(entries.items())[:1])
    assert format_snapshot(one) == kafka_snapshot(one)


def test_saves_that_are_cut_short_are_refused() -> None:
    point = format_resume(ResumePoint(77, PROGRESS, ProducerTable({1: entry(1), 2: entry(2, batches=5)})))
    snapshot = format_snapshot({1: entry(1), 2: entry(2)})
    for length in range(len(point)):
        with pytest.raises(DirectoryDamaged):
            parse_resume(point[:length], "p")
    for length in range(len(snapshot)):
        with pytest.raises(DirectoryDamaged):
            parse_snapshot(snapshot[:length], "p")


def test_a_packed_entry_is_unpacked_as_it_was() -> None:
    for batches in range(6):
        each = entry(9, batches=batches, first_offset=batches - 1)
        assert unpack_entry(pack_entry(1 << 40, each)) == each


def test_the_order_within_a_bucket_is_that_of_last_appends() -> None:
    table = table_of(2000)
    for each in range(0, 2000, 3):
        table[each] = entry(5000 + each)
    for bucket in table.slices():
        offsets = [unpack_entry(packed).batches[-1].last_offset for packed in bucket]
        assert all(before < after for before, after in pairwise(offsets))
