"""Planted bugs in what shortens, compacts, deletes and recovers logs; see `mutants.py`, which counts them among its own."""

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

from libs.commitlog import gapless, opening, recovering, spare, swapping
from libs.commitlog.cleaner import copying
from libs.commitlog.cleaner.copying import Copier
from libs.commitlog.cleaner.output import Output
from libs.commitlog.cleaner.planning import plan
from libs.commitlog.cleaner.record_bytes import survivors
from libs.commitlog.cleaner.transactions import CleanedTransactions
from libs.commitlog.directory import LogDirectory
from libs.commitlog.durable_files import replace_file
from libs.commitlog.sync import SyncTargets, sync_then_write
from tests.simulation import upkeep
from tests.simulation.disk import SimulatedDisk
from tests.simulation.node import Node

Plant = Callable[[Any, str, Any], None]
UPKEEP_MUTANTS: dict[str, tuple[Callable[[Plant], None], range]] = {}


def mutant(name: str, *, seeds: int, first: int = 0) -> Callable[[Callable[[Plant], None]], None]:
    """`first`: the seeds before it do not meet the bug, and take a while to say so."""

    def add(bug: Callable[[Plant], None]) -> None:
        UPKEEP_MUTANTS[name] = bug, range(first, first + seeds)

    return add


def _without(operation: str, right: Callable[..., Any]) -> Callable[..., Any]:
    """As `right`, but the disk is not asked for this."""

    def wrong(*what: Any, **named: Any) -> Any:
        with patch.object(SimulatedDisk, operation, lambda self, *what: None):
            return right(*what, **named)

    return wrong


# --- the start of logs


@mutant("a log start is seen and never on disk", seeds=10)
def _(plant: Plant) -> None:
    plant(Node, "write_log_starts", lambda self, model: None)


@mutant("log starts are renamed before they are synced", seeds=20)
def _(plant: Plant) -> None:
    plant(spare, "replace_file", _without("fdatasync", replace_file))


# --- cleaning


@mutant("what is cleaned is not synced", seeds=20)
def _(plant: Plant) -> None:
    plant(Output, "finish", _without("fdatasync", Output.finish))


@mutant("tombstones go at once", seeds=20, first=5)
def _(plant: Plant) -> None:
    right: Callable[..., Any] = survivors
    plant(copying, "survivors", lambda *what: right(*what[:-1], False))


@mutant("open transactions do not bound the cleaner", seeds=20, first=5)
def _(plant: Plant) -> None:
    right: Callable[..., Any] = plan
    plant(upkeep, "plan", lambda facts, config, **what: right(facts, config, **{**what, "stable_offset": what["log_end_offset"]}))


@mutant("the last batch of a producer goes like any other", seeds=20, first=10)
def _(plant: Plant) -> None:
    plant(Copier, "_is_last_of_producer", lambda self, header: False)


@mutant("aborted records are taken for committed ones", seeds=20, first=2)
def _(plant: Plant) -> None:
    plant(CleanedTransactions, "aborts", lambda self, header: False)


# --- swaps


@mutant("a swap is not noted before it begins", seeds=20, first=4)
def _(plant: Plant) -> None:
    plant(gapless, "note_swap", lambda fs, directory, swap, unlisted: None)


@mutant("an opening leaves swaps as they are", seeds=20, first=2)
def _(plant: Plant) -> None:
    plant(opening, "finish_swaps", lambda fs, directory: None)


@mutant("an opening leaves the segments that a swap took", seeds=20, first=12)
def _(plant: Plant) -> None:
    right = swapping._unlink
    plant(swapping, "_unlink", lambda fs, directory, base, suffix: right(fs, directory, base, suffix) if suffix else None)


@mutant("what a cleaner left is not swept", seeds=20)
def _(plant: Plant) -> None:
    plant(opening, "LEFTOVERS", (".tmp", ".deleted"))


# --- recovery in a child process


@mutant("a child process vouches for what it did not sync", seeds=20)
def _(plant: Plant) -> None:
    def wrong(targets: Sequence[SyncTargets], fs: Any, disk: str) -> bool:
        return sync_then_write([target._replace(files=()) for target in targets], fs, disk)

    plant(recovering, "sync_then_write", wrong)


# --- deletion


@mutant("the files of a partition go before the checkpoint forgets it", seeds=20, first=2)
def _(plant: Plant) -> None:
    plant(Node, "remove", lambda self, model, path: self.directory.remove(path))


@mutant("a name keeps the start of the log that was deleted", seeds=20, first=9)
def _(plant: Plant) -> None:
    def wrong(self: LogDirectory, topic: str, partition: int, path: str) -> None:
        self._fs.rename(self.partition_path(topic, partition), path)
        self._fs.fsync_directory(self.path)

    plant(LogDirectory, "_rename_aside", wrong)
