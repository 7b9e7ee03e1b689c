"""Bugs planted into the log and what keeps it on disk. A simulated disk whose power is cut everywhere must catch them all.

A mutant is a function that plants itself with `replace(where, name, wrong)`, which lasts for one run.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

from libs.commitlog.files import durable_files, sync
from libs.commitlog.files.checked_content import CheckedContent
from libs.commitlog.files.sync import SyncTargets
from libs.commitlog.opening import opening, recovery
from libs.commitlog.opening.aborted_transactions import AbortedTransactions
from libs.commitlog.partition_log import log as log_module
from libs.commitlog.partition_log.directory import LogDirectory
from libs.commitlog.partition_log.log import Log
from libs.commitlog.producers.producer_state import ProducerState
from libs.commitlog.producers.transaction_index import TransactionIndex
from libs.commitlog.segments.index import OFFSET_ENTRY, TIME_ENTRY, open_index
from libs.commitlog.segments.segment import Segment
from tests.simulation import node as node_module
from tests.simulation.cleanup_mutants import CLEANUP_BUGS
from tests.simulation.disk import SimulatedDisk
from tests.simulation.node import Node
from tests.simulation.planted import PlantedBugs, Replace, replacing
from tests.simulation.run import Run, SeedFailed
from tests.support.whole_contents import whole

UNFIT = TypeError, NameError
"""The bug does not fit into what it is planted in any more."""


def violations_of(seed: int) -> list[str]:
    try:
        Run(seed).run()
    except SeedFailed as failure:
        if isinstance(failure.__cause__, UNFIT):
            raise
        return [str(failure)]
    return []


BUGS = PlantedBugs("disk", violations_of, dict(CLEANUP_BUGS))
mutant = partial(replacing, BUGS.caught)

_run_round, _replace_file, _scan = sync.run_round, durable_files.replace_file, recovery.scan


def _in_rounds(replace: Replace, change: Callable[[SyncTargets], SyncTargets]) -> None:
    def wrong(targets: Sequence[SyncTargets], fs: Any, disk: str) -> None:
        _run_round([change(target) for target in targets], fs, disk)

    replace(sync, "run_round", wrong)
    replace(log_module, "run_round", wrong)


# --- rounds


@mutant("a round does not sync the log", seeds=3)
def _(replace: Replace) -> None:
    _in_rounds(replace, lambda target: target._replace(files=()))


@mutant("a round does not sync directories", seeds=5)
def _(replace: Replace) -> None:
    def wrong(*what: Any) -> None:
        with patch.object(SimulatedDisk, "fsync_directory", lambda self, path: None):
            _run_round(*what)

    replace(sync, "run_round", wrong)


@mutant("a sealed segment is not synced", seeds=5)
def _(replace: Replace) -> None:
    _in_rounds(replace, lambda target: target._replace(files=tuple(file for file in target.files if file not in target.sealed)))


@mutant("the resume point is written before the log is synced", seeds=5)
def _(replace: Replace) -> None:
    def wrong(targets: Sequence[SyncTargets], fs: Any, disk: str) -> None:
        for target in targets:
            for write in target.writes:
                durable_files.replace_file(fs, write.path, write.content)
        _run_round(targets, fs, disk)

    replace(sync, "run_round", wrong)


@mutant("durable is told before the sync", seeds=3)
def _(replace: Replace) -> None:
    right = Node.run

    def wrong(self: Node) -> bool:
        captured = self.round
        self.mark()
        self.round = captured
        return right(self)

    replace(node_module.Node, "run", wrong)


@mutant("durable is the end of the log when the round ends", seeds=5)
def _(replace: Replace) -> None:
    right = Log.mark_synced

    def wrong(self: Log, targets: SyncTargets) -> None:
        right(self, targets._replace(end_offset=self.log_end_offset))

    replace(Log, "mark_synced", wrong)


@mutant("a round that a truncation overtook still counts", seeds=40)
def _(replace: Replace) -> None:
    right = Log.mark_synced

    def wrong(self: Log, targets: SyncTargets) -> None:
        right(self, targets._replace(lineage=self._lineage))

    replace(Log, "mark_synced", wrong)


@mutant("a round that a truncation overtook still leaves its resume point", seeds=40)
def _(replace: Replace) -> None:
    replace(sync.Lineage, "end", lambda self: None)


# --- small files


def _replace_file_wrongly(replace: Replace, wrong: Callable[[Any, str, bytes], None]) -> None:
    replace(durable_files, "replace_file", wrong)
    replace(sync, "replace_file", wrong)


@mutant("rename before the file is synced", seeds=5)
def _(replace: Replace) -> None:
    def wrong(fs: Any, path: str, content: bytes) -> None:
        with patch.object(SimulatedDisk, "fdatasync", lambda self, fd: None):
            _replace_file(fs, path, content)

    _replace_file_wrongly(replace, wrong)


@mutant("small files are written in place", seeds=10)
def _(replace: Replace) -> None:
    def wrong(fs: Any, path: str, content: bytes | CheckedContent) -> None:
        fd = fs.open_append(path, create=not fs.exists(path))
        fs.truncate(fd, 0)
        durable_files.write_all(fs, fd, content if isinstance(content, bytes) else whole(content))
        fs.fdatasync(fd)
        fs.close(fd)

    _replace_file_wrongly(replace, wrong)


@mutant("the name of a new partition is not synced", seeds=5)
def _(replace: Replace) -> None:
    right = LogDirectory.create_partition

    def wrong(self: LogDirectory, *what: Any) -> str:
        with patch.object(SimulatedDisk, "fsync_directory", lambda self, path: None):
            return right(self, *what)

    replace(LogDirectory, "create_partition", wrong)


@mutant("the mark of a clean stop stays", seeds=10)
def _(replace: Replace) -> None:
    right = LogDirectory.open

    def wrong(path: str, fs: Any, **what: Any) -> LogDirectory:
        unlink = SimulatedDisk.unlink
        skip = lambda self, path: None if path.endswith(".kafka_cleanshutdown") else unlink(self, path)  # noqa: E731
        with patch.object(SimulatedDisk, "unlink", skip):
            return right(path, fs, **what)

    replace(LogDirectory, "open", staticmethod(wrong))


# --- indexes


@mutant("indexes are not synced with a resume point", seeds=10)
def _(replace: Replace) -> None:
    replace(Segment, "sync_files", lambda self, *, indexes: [self.file.handle])


@mutant("an index is trusted after a crash", seeds=5)
def _(replace: Replace) -> None:
    right = Segment.begin_indexes

    def wrong(self: Segment) -> None:
        offsets = open_index(self._fs, self._stem + ".index", OFFSET_ENTRY)
        times = open_index(self._fs, self._stem + ".timeindex", TIME_ENTRY)
        if offsets is None or times is None or not offsets.count:
            right(self)
        else:
            self._offset_index, self._time_index = offsets, times
            self._max_timestamp, self._bytes_since_index = -1, 0

    replace(Segment, "begin_indexes", wrong)


# --- recovery


@mutant("the torn tail is not cut", seeds=5)
def _(replace: Replace) -> None:
    replace(opening.LogOpener, "_cut", lambda self, segment, excess, later: None)


@mutant("no checksum is looked at", seeds=5)
def _(replace: Replace) -> None:
    replace(recovery, "crc32c", _Anything)


class _Anything(int):
    """Equal to every checksum."""

    def __new__(cls, _: Any) -> "_Anything":
        return super().__new__(cls, 0)

    def __ne__(self, other: object) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


@mutant("what follows the resume point is not read", seeds=5)
def _(replace: Replace) -> None:
    right = opening.LogOpener._recover_from

    def wrong(self: Any, point: Any, segments: list[Segment]) -> Any:
        sizes = point.segment._replace(size=max(point.segment.size, segments[-1].size if len(segments) == 1 else 0))
        return right(self, point._replace(segment=sizes), segments)

    replace(opening.LogOpener, "_recover_from", wrong)


@mutant("a gap between segments is passed over", seeds=10)
def _(replace: Replace) -> None:
    right = opening.LogOpener._scan

    def wrong(self: Any, segments: Any, position: Any, next_offset: Any, state: Any, contiguous_from: int) -> Any:
        return right(self, segments, position, next_offset, state, log_module.LONG_MAX)

    replace(opening.LogOpener, "_scan", wrong)


@mutant("indexes that recovery sealed are not synced", seeds=40)
def _(replace: Replace) -> None:
    right = Log.__init__

    def wrong(self: Log, *what: Any) -> None:
        right(self, *what)
        self._ledger._sealed.clear()

    replace(Log, "__init__", wrong)


# --- producers


@mutant("a producer snapshot holds batches beyond its offset", seeds=20)
def _(replace: Replace) -> None:
    replace(ProducerState, "as_of", lambda self, end_offset: self.entries)


@mutant("a truncation leaves what was saved beyond it", seeds=10)
def _(replace: Replace) -> None:
    replace(log_module, "remove_state_beyond", lambda *_: None)


@mutant("producers are not rewound by a truncation", seeds=10)
def _(replace: Replace) -> None:
    right = Log._cut

    def wrong(self: Log, offset: int) -> None:
        producers = self.producers
        right(self, offset)
        self.producers = producers

    replace(Log, "_cut", wrong)


# --- transactions


@mutant("entries for markers that were cut stay in their index", seeds=20)
def _(replace: Replace) -> None:
    replace(TransactionIndex, "cut", lambda self, end_offset: False)


@mutant("transaction indexes are neither written nor missed", seeds=10)
def _(replace: Replace) -> None:
    replace(AbortedTransactions, "unsaved", lambda self, active_base, active_too: [])
    replace(AbortedTransactions, "counts", {})


# --- truncation


@mutant("what a truncation cut is not synced", seeds=20)
def _(replace: Replace) -> None:
    right = Segment.cut

    def wrong(self: Segment, position: int) -> None:
        with patch.object(SimulatedDisk, "fdatasync", lambda self, fd: None):
            right(self, position)

    replace(Segment, "cut", wrong)


@mutant("a truncation does not sync the directory", seeds=20)
def _(replace: Replace) -> None:
    right = Log._cut

    def wrong(self: Log, offset: int) -> None:
        with patch.object(SimulatedDisk, "fsync_directory", lambda self, path: None):
            right(self, offset)

    replace(Log, "_cut", wrong)
