"""A log is copied into another log directory, the copy takes its place, and at no step is anything lost."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from libs.commitlog.checkpoints.offset_checkpoint import Entry
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.model.config import LogConfig
from libs.commitlog.model.log_checkpoints import LogCheckpoints
from libs.commitlog.partition_log.directory import LOG_START_OFFSETS, LogDirectory, read_moves
from libs.commitlog.partition_log.future_log import FutureLog, Place
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.segment import FileRegistry
from libs.wire.record_batches.batches import iter_batches
from tests.commitlog.crashes import SURVIVALS, Crash, crashes_of
from tests.commitlog.harness import QuickFileSystem, SetClock, all_bytes, append, batch_at, sync
from tests.commitlog.transactional import end, is_open, produce, without_aborted
from tests.simulation.disk import SimulatedDisk
from tests.simulation.sometimes import Sometimes

TOPIC_ID = bytes(range(16))
CONFIG = LogConfig(segment_bytes=450, segment_index_bytes=240, index_interval_bytes=150)


class Node:
    """Two log directories, a log in the first."""

    def __init__(self, fs: FileSystem, root: str = "") -> None:
        self.fs = fs
        self.here, self.there = (
            LogDirectory.open(f"{root}/{name}", fs, new_id=name.encode() * 16, node_id=1) for name in ("a", "b")
        )
        self.registry, self.clock = FileRegistry(), SetClock()

    def place(self, directory: LogDirectory) -> Place:
        return Place(directory, "t", 0, TOPIC_ID, CONFIG, self.fs, self.registry, self.clock)

    def create(self) -> Log:
        return self.open(self.here.create_partition("t", 0, TOPIC_ID))

    def open(self, path: str, log_start_offset: int = 0) -> Log:
        checkpoints = LogCheckpoints(log_start_offset=log_start_offset)
        return Log.open(path, "t", 0, CONFIG, self.fs, registry=self.registry, clock=self.clock, checkpoints=checkpoints)

    def begin(self, log: Log, base_offset: int = 0) -> FutureLog:
        moves = read_moves(self.fs, log.directory) + 1
        return FutureLog.begin(self.place(self.there), base_offset, log.log_start_offset, moves, log.lineage)

    def newest(self) -> tuple[LogDirectory, str]:
        """The copy that a start chooses among all that hold the partition."""
        candidates = [(directory, place.path) for directory in (self.here, self.there) for place in directory.list_partitions()]
        return max(candidates, key=lambda candidate: read_moves(self.fs, candidate[1]))


class Read(NamedTuple):
    batches: list[int]
    """The first offsets of the batches, from the log's start on."""
    committed: list[int]
    """The offsets of the records that a reader of committed records gets."""


def read(log: Log) -> Read:
    result, at = Read([], []), log.log_start_offset
    stable = log.last_stable_offset(log.log_end_offset)
    while piece := log.read(at, 1 << 20, log.log_end_offset, at_least_one_batch=True):
        batches = list(iter_batches(piece.file.read(piece.length, piece.position)))
        aborted = [entry[:2] for entry in log.aborted_transactions(piece, at, log.log_end_offset)]
        result.batches.extend(entry.header.base_offset for entry in batches if entry.header.last_offset >= at)
        result.committed.extend(offset for offset in without_aborted(batches, aborted) if at <= offset < stable)
        at = batches[-1].header.last_offset + 1
    return result


def copy_all(log: Log, future: FutureLog) -> None:
    while future.end_offset < log.log_end_offset:
        piece = log.read(future.end_offset, 300, log.log_end_offset, at_least_one_batch=True)
        if piece is None:
            future.skip_to(log.log_end_offset)
        else:
            assert future.copy(piece, log.epochs.latest)


def finish(log: Log, future: FutureLog) -> None:
    future.finish(log.epochs.entries(), dict(log.producers.entries), log.log_start_offset)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(QuickFileSystem(), str(tmp_path))


def test_a_promoted_copy_has_the_same_bytes_and_knows_what_the_log_knew(node: Node) -> None:
    log = node.create()
    produce(log, 5, transactional=False)
    for _ in range(10):
        produce(log, 7)
    end(log, 7, commit=False)
    produce(log, 8)
    sync(log)
    log.epochs.assign(9, log.log_end_offset)
    future = node.begin(log)
    copy_all(log, future)
    finish(log, future)
    moved = future.promote()
    assert all_bytes(moved) == all_bytes(log)
    assert moved.durable_offset == moved.log_end_offset == log.log_end_offset
    assert moved.producers.entries == log.producers.entries
    assert is_open(moved, 8)
    assert moved.epochs.entries() == log.epochs.entries()[:-1]  # as after any opening, without what is empty
    assert read(moved) == read(log)
    append(moved, batch_at(moved.log_end_offset, epoch=9))
    assert node.newest()[0] is node.there


def test_producers_that_no_batch_names_any_more_outlive_the_move_and_a_crash_after_it(node: Node) -> None:
    log = node.create()
    produce(log, 5, transactional=False)
    for offset in range(1, 30):
        append(log, batch_at(offset))
    sync(log, resume_point=True)
    log.delete_before(20, 30)
    log.advance_start()
    sync(log)
    assert log.retire_segments() is not None
    future = node.begin(log, log.log_start_offset)
    copy_all(log, future)
    future.sync()  # it may have a resume point at its end, which has less state
    finish(log, future)
    path = future.promote().directory
    assert node.open(path, log_start_offset=20).producers.entries == log.producers.entries != {}


def test_a_log_that_was_cut_tells_whoever_copied_it_where(node: Node) -> None:
    log = node.create()
    for offset in range(20):
        append(log, batch_at(offset, epoch=offset // 10))
    sync(log)
    future = node.begin(log)
    copy_all(log, future)
    assert future.lineage.lowest_end() is None
    log.truncate_to(12)
    append(log, batch_at(12, epoch=4))
    log.truncate_to(13)
    assert future.lineage.lowest_end() == 12
    future.truncate_to(12)
    future.lineage = log.lineage
    copy_all(log, future)
    finish(log, future)
    assert all_bytes(future.promote()) == all_bytes(log)


def test_gaps_are_copied_as_gaps_and_survive_a_crash(node: Node) -> None:
    log = node.create()
    wide = 1 << 33
    for offset in (0, 1, 50, 51, wide, wide + 1):
        if offset == wide:
            sync(log)
            log.skip_to(wide)
        append(log, batch_at(offset))
    sync(log)
    log.skip_to(wide + 100)
    future = node.begin(log)
    copy_all(log, future)
    finish(log, future)
    path = future.promote().directory
    reopened = node.open(path)
    assert reopened.log_end_offset == wide + 100
    assert read(reopened).batches == [0, 1, 50, 51, wide, wide + 1]
    assert all_bytes(reopened) == all_bytes(log)


def test_a_copy_that_is_not_promoted_yet_after_all_goes_on(node: Node) -> None:
    log = node.create()
    for offset in range(10):
        append(log, batch_at(offset))
    sync(log)
    future = node.begin(log)
    copy_all(log, future)
    finish(log, future)
    future.reopen()
    for offset in range(10, 20):
        append(log, batch_at(offset, epoch=3))
    copy_all(log, future)
    finish(log, future)
    assert all_bytes(future.promote()) == all_bytes(log)


# -- crashes ----------------------------------------------------------------------------------------------------------------


class World(NamedTuple):
    disk: SimulatedDisk
    node: Node
    log: Log


def world() -> World:
    disk = SimulatedDisk(Sometimes())
    node = Node(disk)
    log = node.create()
    produce(log, 5, transactional=False)
    for offset in range(1, 12):
        append(log, batch_at(offset))
    sync(log, resume_point=True)
    node.here.write_checkpoint(LOG_START_OFFSETS, {("t", 0): Entry(3)})
    log.delete_before(3, 12)
    log.advance_start()
    produce(log, 6)
    produce(log, 6)
    end(log, 6, commit=False)
    sync(log)
    return World(disk, node, log)


def move(before: World) -> None:
    """Moves the partition as `services/storage/moving` does."""
    _, node, log = before
    future = node.begin(log, log.log_start_offset)
    copy_all(log, future)
    future.sync()
    append(log, batch_at(log.log_end_offset, epoch=6))
    sync(log)
    node.there.write_checkpoint(LOG_START_OFFSETS, {("t", 0): Entry(log.log_start_offset)})
    copy_all(log, future)
    finish(log, future)
    after = future.promote()
    append(after, batch_at(after.log_end_offset, epoch=6))
    sync(after)
    node.here.schedule_deletion("t", 0, TOPIC_ID)
    append(after, batch_at(after.log_end_offset, epoch=6))
    sync(after)


def found_after(crash: Crash) -> Log:
    node = Node(crash.disk)
    directory, path = node.newest()
    start = directory.read_checkpoint(LOG_START_OFFSETS).get(("t", 0), Entry(0)).offset
    return node.open(path, log_start_offset=start)


@pytest.mark.parametrize("survival", SURVIVALS)
def test_whatever_a_crash_at_any_step_leaves_one_log_counts_and_has_all_that_was_synced(survival: str) -> None:
    before = world()
    durable: list[int] = []
    log = before.log
    watched: list[Callable[[], int]] = [lambda: log.durable_offset]
    promote = FutureLog.promote

    def noting(self: FutureLog) -> Log:
        after = promote(self)
        watched[0] = lambda: after.durable_offset
        return after

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FutureLog, "promote", noting)
        look = SURVIVALS[survival]

        def survived(disk: SimulatedDisk) -> SimulatedDisk:
            durable.append(watched[0]())
            return look(disk)

        patch.setitem(SURVIVALS, survival, survived)
        crashes = crashes_of(before.disk, lambda: move(before), [survival])
    assert len(crashes) > 60
    directories = set()
    for crash, end_offset in zip(crashes, durable, strict=True):
        recovered = found_after(crash)
        directories.add(recovered.directory)
        assert recovered.log_end_offset >= end_offset, crash.operation
        assert recovered.log_start_offset == 3, crash.operation
        batches, committed = read(recovered)
        assert batches == list(range(3, recovered.log_end_offset)), crash.operation
        assert {5, 6} <= set(recovered.producers.entries), crash.operation
        assert committed == [*range(3, 12), *range(15, recovered.log_end_offset)], crash.operation
    assert directories == {"/a/t-0", "/b/t-0"}
