"""Planted bugs in what shortens, compacts, deletes and recovers logs; `mutants.py` has them in its list."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

from libs.commitlog.checkpoints.offset_checkpoint import Entry
from libs.commitlog.cleaner import copying
from libs.commitlog.cleaner.copying import Copier
from libs.commitlog.cleaner.output import Output
from libs.commitlog.cleaner.planning import plan
from libs.commitlog.cleaner.record_bytes import retained_records
from libs.commitlog.cleaner.transactions import CleanedTransactions
from libs.commitlog.files import contiguity, reserved_file
from libs.commitlog.files.durable_files import replace_file
from libs.commitlog.files.sync import SyncTargets, sync_then_write
from libs.commitlog.opening import opening
from libs.commitlog.partition_log import recovery_job
from libs.commitlog.partition_log.directory import LogDirectory
from libs.commitlog.segments import swapping
from tests.simulation import cleanup
from tests.simulation.disk import SimulatedDisk
from tests.simulation.node import Node
from tests.simulation.planted import Bug, Replace, replacing

CLEANUP_BUGS: dict[str, Bug] = {}
mutant = partial(replacing, CLEANUP_BUGS)


def _without(operation: str, right: Callable[..., Any]) -> Callable[..., Any]:
    """The function `right`, but the disk is not asked for this operation."""

    def wrong(*what: Any, **named: Any) -> Any:
        with patch.object(SimulatedDisk, operation, lambda self, *what: None):
            return right(*what, **named)

    return wrong


# --- the start of logs


@mutant("a log start is seen and never on disk", seeds=10)
def _(replace: Replace) -> None:
    replace(Node, "write_log_starts", lambda self, model: None)


@mutant("log starts are renamed before they are synced", seeds=20)
def _(replace: Replace) -> None:
    replace(reserved_file, "replace_file", _without("fdatasync", replace_file))


# --- cleaning


@mutant("what is cleaned is not synced", seeds=20)
def _(replace: Replace) -> None:
    replace(Output, "finish", _without("fdatasync", Output.finish))


@mutant("tombstones go at once", seeds=20, first=5)
def _(replace: Replace) -> None:
    right: Callable[..., Any] = retained_records
    replace(copying, "retained_records", lambda *what: right(*what[:-1], False))


@mutant("open transactions do not bound the cleaner", seeds=20, first=5)
def _(replace: Replace) -> None:
    right: Callable[..., Any] = plan
    replace(
        cleanup, "plan", lambda facts, config, **what: right(facts, config, **{**what, "stable_offset": what["log_end_offset"]})
    )


@mutant("the last batch of a producer goes like any other", seeds=20, first=10)
def _(replace: Replace) -> None:
    replace(Copier, "_is_last_of_producer", lambda self, header: False)


@mutant("aborted records are taken for committed ones", seeds=20, first=2)
def _(replace: Replace) -> None:
    replace(CleanedTransactions, "aborts", lambda self, header: False)


# --- swaps


@mutant("a swap is not noted before it begins", seeds=20, first=4)
def _(replace: Replace) -> None:
    replace(contiguity, "note_swap", lambda fs, directory, swap, unlisted: None)


@mutant("an opening leaves swaps as they are", seeds=20, first=2)
def _(replace: Replace) -> None:
    replace(opening, "finish_swaps", lambda fs, directory: None)


@mutant("an opening leaves the segments that a swap took", seeds=20, first=12)
def _(replace: Replace) -> None:
    right = swapping._unlink
    replace(swapping, "_unlink", lambda fs, directory, base, suffix: right(fs, directory, base, suffix) if suffix else None)


@mutant("what a cleaner left is not swept", seeds=20)
def _(replace: Replace) -> None:
    replace(opening, "LEFTOVERS", (".tmp", ".deleted"))


# --- recovery in a child process


@mutant("a child process vouches for what it did not sync", seeds=20)
def _(replace: Replace) -> None:
    def wrong(targets: Sequence[SyncTargets], fs: Any, disk: str) -> bool:
        return sync_then_write([target._replace(files=()) for target in targets], fs, disk)

    replace(recovery_job, "sync_then_write", wrong)


# --- deletion


@mutant("the files of a partition go before the checkpoint forgets it", seeds=10, first=30)
def _(replace: Replace) -> None:
    replace(Node, "remove", lambda self, model, path: self.directory.remove(path))


@mutant("a name keeps the start of the log that was deleted", seeds=20, first=9)
def _(replace: Replace) -> None:
    def wrong(self: LogDirectory, topic: str, partition: int, path: str) -> None:
        self._fs.rename(self.partition_path(topic, partition), path)
        self._fs.fsync_directory(self.path)

    replace(LogDirectory, "_rename_aside", wrong)


# --- names


@mutant("a cleaned offset outlives its log", seeds=10, first=30)
def _(replace: Replace) -> None:
    replace(LogDirectory, "drop_cleaned_offset", lambda self, topic, partition: None)


@mutant("a cleaned offset is dropped after its name is free", seeds=10, first=30)
def _(replace: Replace) -> None:
    right = LogDirectory._rename_aside
    drop = LogDirectory.drop_cleaned_offset

    def wrong(self: LogDirectory, topic: str, partition: int, path: str) -> None:
        with patch.object(LogDirectory, "drop_cleaned_offset", lambda self, *name: None):
            right(self, topic, partition, path)
        drop(self, topic, partition)

    replace(LogDirectory, "_rename_aside", wrong)


@mutant("an entry of another topic counts", seeds=10, first=15)
def _(replace: Replace) -> None:
    replace(Entry, "is_of", lambda self, topic_id: True)


@mutant("an entry of a log that left counts for the one that came back", seeds=10, first=130)
def _(replace: Replace) -> None:
    replace(LogDirectory, "find_doubtful_entries", lambda self: lambda name, entry: False)
