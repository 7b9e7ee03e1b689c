"""A model of compaction. However a log is written and cleaned, no reader of it sees a wrong value."""

from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.commitlog.cleaner import source
from libs.commitlog.cleaner.copying import Copier
from libs.commitlog.cleaner.source import TooLargeToOpen
from libs.commitlog.model.errors import LogDamaged
from libs.wire.record_batches.batch_layout import HEADER_SIZE
from libs.wire.record_batches.records import Record, build_batch
from tests.commitlog.compacted import NOW_MS, RETENTION_MS, CompactedPartition, Kept
from tests.simulation.planted import Mutant

KEYS = st.sampled_from([None, b"", b"a", b"b", b"c", b"k" * 40, b"k" * 41, b"k" * 200])
VALUES = st.one_of(st.none(), st.binary(max_size=60), st.just(b"v" * 300))
HEADERS = st.sampled_from([(), (("name", b"x"),), (("name", None), ("other", b"y" * 200))])
RECORDS = st.lists(st.builds(Record, KEYS, VALUES, st.integers(NOW_MS - 10**7, NOW_MS), HEADERS), min_size=1, max_size=6)
LOG_APPEND_TIMES = st.sampled_from([None, None, None, NOW_MS - 5])
PUT = st.tuples(st.just("put"), RECORDS, st.integers(0, 4), st.sampled_from([-1, -1, 5, 6]), LOG_APPEND_TIMES)
TRANSACTIONAL = st.tuples(st.just("transactional"), RECORDS, st.integers(0, 4), st.sampled_from([7, 8, 9]))
END = st.tuples(st.just("end"), st.sampled_from([7, 8, 9]), st.booleans())
CLEAN = st.tuples(
    st.just("clean"),
    st.sampled_from([1, 900, 2500, 1 << 20]),  # bytes of the map
    st.sampled_from([1, 1500, 1 << 20]),  # bytes of a segment
    st.sampled_from([0, 1000, RETENTION_MS]),  # how long ago the last one was
)
ROLL, SKIP = st.just(("roll",)), st.tuples(st.just("skip"), st.integers(1, 9))
STEPS = st.lists(st.one_of(PUT, PUT, PUT, TRANSACTIONAL, TRANSACTIONAL, END, END, CLEAN, ROLL, SKIP), min_size=5, max_size=40)


class World:
    """The partition, and a simple record of everything that was written to it."""

    def __init__(self, path: Path) -> None:
        self.partition = CompactedPartition(path)
        self.written: dict[int, Kept] = {}
        self.committed: set[int] = set()
        self.undecided: dict[int, list[int]] = {}
        self.unopened: set[int] = set()
        """The offsets in batches that are too large to open."""

    def put(self, records: list[Record], codec: int, producer_id: int, append_time: int | None, *, transactional: bool) -> None:
        partition = self.partition
        idempotent = {"producer_id": producer_id} if producer_id >= 0 else {}
        base = partition.put(*records, codec=codec, transactional=transactional, log_append_time_ms=append_time, **idempotent)
        offsets = range(base, base + len(records))
        if codec and len(build_batch(records)) - HEADER_SIZE > source.DECOMPRESSED_BYTES_MAX:
            self.unopened.update(offsets)
        for offset, record in zip(offsets, records, strict=True):
            time = record.timestamp if append_time is None else append_time
            self.written[offset] = Kept(offset, record.key, record.value, time, record.headers)
        if transactional:
            self.undecided.setdefault(producer_id, []).extend(offsets)
        else:
            self.committed.update(offsets)

    def end(self, producer_id: int, *, aborts: bool) -> None:
        self.partition.end_transaction(producer_id, aborts=aborts)
        offsets = self.undecided.pop(producer_id, [])
        if not aborts:
            self.committed.update(offsets)

    def table(self, offsets: list[int], end_offset: int) -> dict[bytes, tuple[int, Kept]]:
        """The final value of each key for a reader of committed records that stops at `end_offset`."""
        latest: dict[bytes, tuple[int, Kept]] = {}
        for offset in offsets:
            record = self.written[offset]
            if offset < end_offset and offset in self.committed and record.key is not None:
                if record.value is None:
                    latest.pop(record.key, None)
                else:
                    latest[record.key] = offset, record
        return latest

    def check_contents(self) -> None:
        """Checks that all records were written, at their offsets, in order, and that batches keep the last sequence of each
        producer."""
        records = self.partition.records()
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets))
        assert all(record == self.written[record.offset] for record in records)
        headers = self.partition.headers()
        for before, after in pairwise(headers):
            assert before.last_offset < after.base_offset
        for producer_id, end in self.partition.producers.items():
            assert any(h.producer_id == producer_id and h.last_offset == end.last_data_offset for h in headers)

    def clean(self, map_bytes: int, segment_bytes: int, later_ms: int) -> None:
        partition = self.partition
        partition.now_ms += later_ms
        job = partition.job()
        if job.end_offset <= partition.checkpoint:
            return
        before, first_dirty = partition.offsets(), partition.checkpoint
        known = self.table(before, partition.stable_offset)
        after_end = [bytes(b.view) for b in partition.batches() if b.header.base_offset >= job.end_offset]
        last = max((h.last_offset for h in partition.headers() if h.last_offset < job.end_offset), default=-1)
        result = partition.clean(map_bytes=map_bytes, segment_bytes=segment_bytes)
        end = result.end_offset
        assert first_dirty < end <= job.end_offset
        assert sum(output.size for output in result.segments) <= sum(s.size for s in job.segments) * 2
        self.check_contents()
        offsets = partition.offsets()
        assert set(offsets) <= set(before)
        assert self.table(offsets, partition.stable_offset) == known
        assert [offset for offset in before if offset >= end] == [offset for offset in offsets if offset >= end]
        assert [bytes(b.view) for b in partition.batches() if b.header.base_offset >= job.end_offset] == after_end
        # Each key once, nothing aborted, no record without a key.
        cleaned = [self.written[offset] for offset in offsets if offset < end and offset not in self.unopened]
        assert all(record.offset in self.committed and record.key is not None for record in cleaned)
        keys = [record.key for record in cleaned]
        assert len(keys) == len(set(keys))
        if end == job.end_offset:
            if last == end - 1:
                assert max(h.last_offset for h in partition.headers() if h.last_offset < end) == last
            self.check_that_nothing_is_left_to_do(segment_bytes)

    def check_that_nothing_is_left_to_do(self, segment_bytes: int) -> None:
        """Checks that a second pass at the same time finds the same records, and a third one the same bytes."""
        partition = self.partition
        offsets = partition.offsets()
        job = partition.job()
        contents = []
        for _ in range(2):
            partition.clean(segment_bytes=segment_bytes, first_dirty_offset=job.end_offset, end_offset=job.end_offset)
            assert partition.offsets() == offsets
            contents.append([bytes(batch.view) for batch in partition.batches()])
        assert contents[0] == contents[1]


@settings(max_examples=120, deadline=None)
@given(STEPS)
def test_a_cleaned_log_tells_what_was_last_written_of_each_key(steps: list[tuple[object, ...]]) -> None:
    write_and_clean(steps)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_so_it_does_where_batches_are_too_large_to_open(steps: list[tuple[object, ...]]) -> None:
    with patch.object(source, "DECOMPRESSED_BYTES_MAX", 200):
        write_and_clean(steps)


PLANTED = {
    "tombstones behind an unopened batch go": Mutant(
        Copier.copy, "self._keep_unopened(batch, output, error)", "self._keep(batch, output)"
    ),
    "an unopened batch goes": Mutant(Copier.copy, "self._keep_unopened(batch, output, error)", "pass"),
    "an unopened batch is damage": Mutant(
        Copier.copy, "except (TooLargeToOpen, InvalidRecord) as error:", "except ZeroDivisionError as error:"
    ),
}


def deletions(seed: int) -> list[tuple[object, ...]]:
    """Two keys, large values in batches that are too large to open, and tombstones."""
    random, steps = Random(seed), list[tuple[object, ...]]()
    for _ in range(8):
        value = random.choice([None, b"small", b"v" * 300])
        records = [Record(random.choice([b"a", b"b"]), value, NOW_MS)]
        steps.append(random.choice([("put", records, 4, -1, None), ("roll",), ("clean", 1 << 20, 1 << 20, RETENTION_MS)]))
    return steps


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_noticed(bug: str) -> None:
    def noticed(seed: int) -> bool:
        try:
            write_and_clean(deletions(seed))
        except (AssertionError, LogDamaged, TooLargeToOpen):
            return True
        return False

    with patch.object(source, "DECOMPRESSED_BYTES_MAX", 200):
        assert not any(noticed(seed) for seed in range(20))
        with PLANTED[bug].planted():
            assert any(noticed(seed) for seed in range(20))


def write_and_clean(steps: list[tuple[object, ...]]) -> None:
    with TemporaryDirectory() as directory:
        world = World(Path(directory))
        for step in steps:
            match step:
                case ("put", list() as records, int() as codec, int() as producer_id, (None | int()) as append_time):
                    world.put(records, codec, producer_id, append_time, transactional=False)
                case ("transactional", list() as records, int() as codec, int() as producer_id):
                    world.put(records, codec, producer_id, None, transactional=True)
                case ("end", int() as producer_id, bool() as aborts):
                    world.end(producer_id, aborts=aborts)
                case ("roll",):
                    world.partition.roll()
                case ("skip", int() as offsets):
                    world.partition.skip(offsets)
                case ("clean", int() as map_bytes, int() as segment_bytes, int() as later_ms):
                    world.partition.roll()
                    world.clean(map_bytes, segment_bytes, later_ms)
        for producer_id in list(world.undecided):
            world.end(producer_id, aborts=True)
        world.partition.roll()
        for _ in range(4):
            world.clean(1 << 20, 1 << 20, RETENTION_MS + 1)
            if world.partition.checkpoint < world.partition.next_offset:
                world.partition.roll()
        tombstones_and_markers_expire(world)


def tombstones_and_markers_expire(world: World) -> None:
    """Passes that are far enough apart leave values, the last batch, and what producers need."""
    partition = world.partition
    job = partition.job()
    if not job.segments:
        return
    partition.producers.clear()
    known = world.table(partition.offsets(), job.end_offset)
    for _ in range(3):
        partition.now_ms += RETENTION_MS + 1
        partition.clean(first_dirty_offset=job.end_offset, end_offset=job.end_offset)
    records = partition.records(job.end_offset)
    assert world.table(partition.offsets(), job.end_offset) == known
    first_unopened = min((record.offset for record in records if record.offset in world.unopened), default=1 << 62)
    assert all(record.value is not None for record in records if record.offset < first_unopened)
    speaking = {header.producer_id for header in partition.headers() if header.is_transactional and not header.is_control}
    ended = {header.base_offset: header.producer_id for header in partition.headers() if header.is_control}
    aborts = {entry.last_offset for entry in partition.aborted}
    assert all(offset not in aborts and ended[offset] in speaking for offset in partition.markers() if offset < job.end_offset)
    empty = [header for header in partition.headers() if header.record_count == 0]
    assert all(header.last_offset + 1 == job.end_offset for header in empty)
