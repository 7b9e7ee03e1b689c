"""Crashes of a simulated disk before each operation, and what each leaves."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from tests.simulation.disk import SimulatedDisk


class Unkind(Random):
    """A crash that unsynced data never survive."""

    def choice(self, seq: Any) -> Any:
        return False if False in seq else None


class Kind(Random):
    """A crash that all data survive."""

    def choice(self, seq: Any) -> Any:
        return True if True in seq else None


class NamesOnly(Random):
    """A crash that names survive, and unsynced data do not."""

    def __init__(self) -> None:
        super().__init__(0)
        self._drawn = 0

    def choice(self, seq: Any) -> Any:
        self._drawn += 1
        return self._drawn != 1 if True in seq else None


SURVIVALS: dict[str, Callable[[SimulatedDisk], SimulatedDisk]] = {
    "killed": lambda disk: disk.as_left_by_a_kill(),
    "nothing unsynced": lambda disk: disk.crashed(Unkind()),
    "everything": lambda disk: disk.crashed(Kind()),
    "names only": lambda disk: disk.crashed(NamesOnly()),
    **{f"drawn {seed}": lambda disk, seed=seed: disk.crashed(Random(seed)) for seed in range(4)},  # type: ignore[misc]
}


class Crash(NamedTuple):
    operation: str
    step: int
    disk: SimulatedDisk


def crashes_of(disk: SimulatedDisk, act: Callable[[], object], survivals: Sequence[str]) -> list[Crash]:
    """The disks after a crash before each operation of `act`, and after the last."""
    found: list[Crash] = []
    step = 0

    def look(operation: str) -> None:
        nonlocal step
        step += 1
        found.extend(Crash(f"{operation}, {name}", step, SURVIVALS[name](disk)) for name in survivals)

    disk.before = look
    try:
        act()
        look("the end")
    finally:
        disk.before = None
    return found
