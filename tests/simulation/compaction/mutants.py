"""Bugs planted into what compacts, deletes and opens logs, to see whether a small cluster shows a deleted key again."""

from collections.abc import Callable
from functools import partial
from typing import Any

from libs.commitlog.checkpoints.offset_checkpoint import Entry
from libs.commitlog.cleaner import copying
from libs.commitlog.partition_log.directory import LogDirectory
from tests.simulation.compaction.run import run_one
from tests.simulation.planted import Bug, PlantedBugs, Replace, replacing

MUTANTS: dict[str, Bug] = {}
mutant = partial(replacing, MUTANTS)


@mutant("a topic made anew inherits the cleaned offset of its name", seeds=10)
def _(replace: Replace) -> None:
    """What is below that offset counts as compacted: its tombstones go, and what they deleted stays."""
    replace(LogDirectory, "drop_cleaned_offset", lambda self, topic, partition: None)
    replace(Entry, "is_of", lambda self, topic_id: True)


@mutant("tombstones go while a follower is behind", seeds=10)
def _(replace: Replace) -> None:
    """`delete.retention.ms` counts for nothing. A follower that has the value never reads of its deletion."""
    right: Callable[..., Any] = copying.retained_records
    replace(copying, "retained_records", lambda *what: right(*what[:-1], False))


def violations_of(seed: int) -> list[str]:
    return run_one(seed, until_caught=True).violations


BUGS = PlantedBugs("compaction", violations_of, MUTANTS)
