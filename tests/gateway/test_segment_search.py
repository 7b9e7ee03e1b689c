"""Segment search: the gateway finds in a segment's files what the leader would find, or nothing."""

import random
import struct
from pathlib import Path

import pytest

from libs.commitlog.model.config import LogConfig
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.timestamp_search import search_timestamp
from libs.wire.record_batches.records import Record, build_batch
from services.gateway.core.segment_search import (
    TIME_ENTRY,
    FoundBatch,
    FoundRecord,
    Index,
    SegmentFiles,
    find_batch,
    find_timestamp,
    floor,
)
from tests.commitlog.harness import append, offset_for_timestamp, open_log, searched

START = 1_700_000_000_000
CODECS = {"plain": (0,), "mixed": (0, 0, 0, 1, 4)}


class Files:
    """The files of a log with one segment. `uncached` names those that are not in memory."""

    def __init__(self, path: Path) -> None:
        self.contents = {suffix: next(path.glob(f"*.{suffix}")).read_bytes() for suffix in ("log", "index", "timeindex")}
        self.uncached: set[str] = set()
        self.reads = 0

    def of(self, log: Log) -> SegmentFiles:
        segment = log.active
        return SegmentFiles(
            segment.base_offset,
            segment.size,
            self._reading("log"),
            Index(self._reading("index"), segment.offset_index.count, 0, log.log_end_offset),
            Index(self._reading("timeindex"), segment.time_index.count, START, segment.max_timestamp),
        )

    def _reading(self, suffix: str):  # type: ignore[no-untyped-def]
        def read(position: int, length: int) -> bytes | None:
            self.reads += 1
            return None if suffix in self.uncached else self.contents[suffix][position : position + length]

        return read


def filled(path: Path, dice: random.Random, *, batches: int, codecs: tuple[int, ...] = (0,), interval: int = 300) -> Log:
    """A log whose timestamps rise, but not from record to record."""
    log = open_log(path, config=LogConfig(segment_index_bytes=1 << 20, index_interval_bytes=interval))
    for number in range(batches):
        records = [
            Record(b"%d" % number, bytes(dice.randrange(60)), START + 10 * number + dice.randrange(-40, 40))
            for _ in range(dice.randrange(1, 9))
        ]
        stamp = START + 10 * number if dice.random() < 0.1 else None
        batch = build_batch(
            records, base_offset=log.log_end_offset, leader_epoch=3, codec=dice.choice(codecs), log_append_time_ms=stamp
        )
        append(log, batch)
    return log


@pytest.mark.parametrize("codecs", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("interval", [0, 300, 4096])
def test_every_offset_and_timestamp_is_found_where_the_log_finds_it(
    tmp_path: Path, codecs: tuple[int, ...], interval: int
) -> None:
    log = filled(tmp_path, random.Random(1), batches=600, codecs=codecs, interval=interval)
    files = Files(tmp_path)
    segment = files.of(log)
    end, missed = log.log_end_offset, 0
    for offset in range(end):
        place, known = find_batch(segment, offset), log._reader.find(offset)
        assert known is not None
        assert place == FoundBatch(*known[1])
    for timestamp in range(START - 50, START + 6100, 3):
        expected = offset_for_timestamp(log, timestamp, end)
        record = find_timestamp(segment, timestamp, 0)
        missed += record is None and expected is not None
        assert record is None or record == FoundRecord(*expected or ())
    assert find_batch(segment, end) is None
    assert missed == 0 or len(codecs) > 1, "what is compressed is the leader's to open"
    log.close(clean=False)


def test_records_before_the_logs_start_do_not_count(tmp_path: Path) -> None:
    log = filled(tmp_path, random.Random(2), batches=50)
    segment = Files(tmp_path).of(log)
    for start in range(0, log.log_end_offset, 7):
        record = find_timestamp(segment, START, start)
        assert record == searched(search_timestamp(log.segments, START, start, log.log_end_offset))
    log.close(clean=False)


def test_a_place_in_a_long_index_is_found_in_few_reads(tmp_path: Path) -> None:
    log = filled(tmp_path, random.Random(3), batches=5000, interval=0)
    files = Files(tmp_path)
    segment = files.of(log)
    lookups = range(0, log.log_end_offset, 100)
    for offset in lookups:
        assert find_batch(segment, offset) is not None
    assert files.reads < 5 * len(lookups)
    log.close(clean=False)


@pytest.mark.parametrize("file", ["log", "index", "timeindex"])
def test_bytes_that_are_not_in_memory_are_not_waited_for(tmp_path: Path, file: str) -> None:
    log = filled(tmp_path, random.Random(4), batches=100)
    files = Files(tmp_path)
    files.uncached = {file}
    segment = files.of(log)
    assert find_timestamp(segment, START + 500, 0) is None
    assert (find_batch(segment, 50) is None) == (file != "timeindex")
    log.close(clean=False)


def test_indexes_that_lead_astray_are_not_believed(tmp_path: Path) -> None:
    log = filled(tmp_path, random.Random(5), batches=300)
    honest = Files(tmp_path)
    segment = honest.of(log)
    dice = random.Random(6)
    for _ in range(300):
        bent = Files(tmp_path)
        for suffix, entry in (("index", 8), ("timeindex", 12)):
            content = bytearray(bent.contents[suffix])
            at = dice.randrange(len(content) // entry) * entry
            if at < entry * log.active.offset_index.count:
                struct.pack_into(">i", content, at + dice.choice((0, entry - 4)), dice.randrange(-(1 << 31), 1 << 31))
            bent.contents[suffix] = bytes(content)
        offset = dice.randrange(log.log_end_offset)
        assert find_batch(bent.of(log), offset) in (None, find_batch(segment, offset))
    log.close(clean=False)


def test_a_search_among_equal_and_uneven_keys_ends() -> None:
    dice = random.Random(7)
    for _ in range(200):
        keys = sorted(START + int(dice.expovariate(1 / 10 ** dice.randrange(1, 9))) for _ in range(dice.randrange(3000)))
        content = b"".join(TIME_ENTRY.pack(key, number) for number, key in enumerate(keys))
        index = Index(lambda at, size, c=content: c[at : at + size], len(keys), 0, START + dice.randrange(10**9))  # type: ignore[misc]
        for key in dice.choices([*keys, START - 1, START + 10**10], k=5):
            record = floor(index, TIME_ENTRY, key)
            at_most = [number for number, other_key in enumerate(keys) if other_key <= key]
            assert record == ((keys[at_most[-1]], at_most[-1]) if at_most else (key + 1, 0))


def test_headers_that_are_none_end_a_search(tmp_path: Path) -> None:
    log = filled(tmp_path, random.Random(8), batches=3, interval=4096)
    files = Files(tmp_path)
    for position, value in ((8, -1), (8, 1 << 30), (23, -5)):
        content = bytearray(files.contents["log"])
        struct.pack_into(">i", content, position, value)
        files.contents["log"] = bytes(content)
        assert find_batch(files.of(log), log.log_end_offset - 1) is None
        files = Files(tmp_path)
    log.close(clean=False)
