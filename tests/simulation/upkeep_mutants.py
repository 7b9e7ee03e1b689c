"""Planted bugs in what shortens, compacts, deletes and recovers logs; see `mutants.py`, which counts them among its own."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from libs.commitlog import spare
from libs.commitlog.cleaner.output import Output
from libs.commitlog.durable_files import replace_file
from tests.simulation.disk import SimulatedDisk
from tests.simulation.node import Node

Plant = Callable[[Any, str, Any], None]
UPKEEP_MUTANTS: dict[str, tuple[Callable[[Plant], None], int]] = {}


def mutant(name: str, *, seeds: int) -> Callable[[Callable[[Plant], None]], None]:
    def add(bug: Callable[[Plant], None]) -> None:
        UPKEEP_MUTANTS[name] = bug, seeds

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
