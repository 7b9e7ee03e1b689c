"""The means of single cases of `make bench`: the raw disk, cold pages, counters of processes, clients, what retention leaves."""

import os
import time
from pathlib import Path

import pytest
from penstock.testing import Cluster

from tests.bench.__main__ import CASES, DURABILITY, IN_ONE_PROCESS, OF_NODES, SHAPES, STARTS
from tests.bench.cold_pages import cold_case, partitions_of
from tests.bench.java import consumed_rate
from tests.bench.librdkafka import librdkafka_consumer_case, librdkafka_producer_case
from tests.bench.load import BenchError
from tests.bench.page_cache import drop_cached
from tests.bench.process_counters import disk_reads_of, switches_of
from tests.bench.raw_disk import RawDisk, append_case, append_synced
from tests.bench.retained_write import Part, figures_of, kept_bytes
from tests.bench.sides import Side

OWN = {"own": os.getpid()}


@pytest.mark.parametrize("files", [1, 3])
def test_the_raw_disk_syncs_all_that_is_in_flight_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int) -> None:
    syncs: list[int] = []
    sizes: list[int] = []

    def sync(descriptor: int) -> None:
        syncs.append(descriptor)
        sizes.append(sum(path.stat().st_size for path in paths))

    monkeypatch.setattr("tests.bench.raw_disk.os.fdatasync" if files == 1 else "tests.bench.raw_disk.sync_all", sync)
    paths = [tmp_path / str(number) for number in range(files)]
    done = append_synced(paths, b"batch", 4, 60.0, 1000)
    assert {path.read_bytes() for path in paths} == {b"batch" * (done.requests // files)}
    assert (done.bytes, done.requests) == (sizes[-1], sizes[-1] // 5)
    assert sizes == [round_ * files * 4 * 5 for round_ in range(1, len(syncs) + 1)]
    assert done.bytes >= 1000 > sizes[-2]


def test_a_turn_of_the_raw_disk_leaves_nothing(tmp_path: Path) -> None:
    side: Side = RawDisk("disk", "", log_directory=tmp_path)
    case = append_case("disk-append-1KB-4conn", 1024, 4)
    prepared = case.prepare(side)
    measured = case.run(side, prepared, 0.01)
    assert len(list(tmp_path.iterdir())) == 4
    assert measured.requests % (4 * 5) == 0
    assert (measured.value > 0, measured.bytes) == (True, 0), "this process writes: the side has no CPU to tell for each GB"
    case.clean(side, prepared)
    assert not list(tmp_path.iterdir())


def test_a_file_that_was_dropped_is_read_from_the_disk_again(tmp_path: Path) -> None:
    size = 8 << 20
    folder = tmp_path / "t-0"
    folder.mkdir()
    file = folder / "log"
    file.write_bytes(os.urandom(size))
    before = disk_reads_of(OWN)
    file.read_bytes()
    hot = disk_reads_of(OWN) - before
    drop_cached([folder])
    before = disk_reads_of(OWN)
    file.read_bytes()
    assert disk_reads_of(OWN) - before >= size, "is the folder of temporary files on a disk?"
    assert hot < size / 2


def test_a_wait_is_a_context_switch() -> None:
    before = switches_of(OWN)
    for _ in range(50):
        time.sleep(0.001)
    assert switches_of(OWN) - before >= 50


def test_only_the_partitions_of_a_topic_are_dropped(tmp_path: Path) -> None:
    for name in ("cold-1-0", "cold-1-1", "cold-11-0", "other-0"):
        (tmp_path / name).mkdir()
    side: Side = RawDisk("penstock", "", log_directory=tmp_path)
    assert {path.name for path in partitions_of(side, "cold-1")} == {"cold-1-0", "cold-1-1"}
    with pytest.raises(AssertionError, match="no partition of missing"):
        partitions_of(side, "missing")


def test_a_pass_whose_pages_are_hot_has_no_figure(penstock_session_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what nobody dropped is left out of it: it fills its log as a turn does, and reads it."""
    monkeypatch.setattr("tests.bench.cold_pages.LOG_BYTES", 4 << 20)
    monkeypatch.setattr("tests.bench.cold_pages.drop_cached", lambda directories: None)
    monkeypatch.setattr("tests.bench.cold_pages.partitions_of", lambda side, topic: [])
    side = Side("penstock", penstock_session_cluster.bootstrap_servers)
    case = cold_case("cold", 65_536, 16_384, 2)
    assert case.renew is not None
    prepared = case.renew(side, case.prepare(side))
    with pytest.raises(BenchError, match=r"of \d{7} bytes, only \d+ came from the disk"):
        case.run(side, prepared, 1.0)


def test_librdkafka_writes_and_reads_what_it_is_told_to(penstock_session_cluster: Cluster) -> None:
    side = Side("penstock", penstock_session_cluster.bootstrap_servers)
    for case in (librdkafka_producer_case("written", 100, 2500), librdkafka_consumer_case("read", 100, 2500)):
        prepared = case.prepare(side)
        measured = case.run(side, prepared, 1.0)
        assert measured.requests == 2500
        assert measured.value > 0
        case.clean(side, prepared)


@pytest.mark.parametrize("kind", ["nMsg", "nRecord"])
def test_the_rate_of_the_java_consumer_is_that_without_its_rebalance(kind: str) -> None:
    headings = f"start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.{kind}, {kind}.sec, rebalance.time.ms, "
    headings += f"fetch.time.ms, fetch.MB.sec, fetch.{kind}.sec"
    figures = "2026-12-01 09:00:00:000, 2026-12-01 09:00:04:000, 95.3674, 23.8419, 1000000, 250000.0000, 2000, 2000, 47.6837, "
    assert consumed_rate(f"a warning\n{headings}\n{figures}500000.0000\n") == (1_000_000, 500_000.0)


def test_the_last_tenth_stands_beside_the_first() -> None:
    rate, memory = figures_of([Part(200.0, 50.0, 1.0), Part(100.0, 90.0, 2.0), Part(190.0, 60.0, 2.0)], "so much")
    assert (rate["penstock"], rate["tenths_mb_per_s"]) == (0.95, [200.0, 100.0, 190.0])
    assert (memory["penstock"], memory["memory_mb"]) == (1.2, [50.0, 90.0, 60.0])


def test_kept_is_what_the_files_of_a_topic_take(tmp_path: Path) -> None:
    for name in ("kept-0", "kept-1", "other-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").write_bytes(bytes(1 << 20))
    (tmp_path / "kept-1" / "00000000000000000000.log.deleted").write_bytes(bytes(1 << 20))
    drop_cached(tmp_path.iterdir())  # a file system that allocates late counts blocks that are on the disk
    assert kept_bytes(tmp_path, "kept") == pytest.approx(3 << 20, rel=0.1)


def test_each_group_has_sides_and_its_cases_a_name_of_their_own() -> None:
    groups = ("librdkafka", "java", "lean", "cold", "sendfile", "raw_disk")
    names = [case.name for group in groups for case in CASES[group]()]
    assert len(set(names)) == len(names)
    assert set(SHAPES.values()) < set(STARTS)
    assert {*SHAPES, *DURABILITY, *IN_ONE_PROCESS, *OF_NODES} <= set(CASES)
