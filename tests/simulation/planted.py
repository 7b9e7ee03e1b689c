"""Planted bugs: lines that somebody might write in place of the right ones. A simulation must catch each within a few seeds.

`python -m tests.simulation.planted KIND` prints the number of seeds that each bug of a kind takes; `KIND NAME…` for those alone.
Each kind of simulation keeps its own list: `KINDS` says where. `catching_seeds.json` remembers a seed that caught a bug, and it
is tried first; `python -m tests.simulation.planted KIND --remember` writes it anew.
"""

import builtins
import dis
import importlib
import inspect
import json
import logging
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.simulation.process_pool import process_pool

KINDS = {
    "disk": "tests.simulation.mutants",
    "component": "tests.simulation.replication.mutants",
    "groups": "tests.simulation.groups.mutants",
    "transactions": "tests.simulation.transactions.mutants",
    "compaction": "tests.simulation.compaction.mutants",
    "quotas": "tests.simulation.quotas.mutants",
    "cluster": "tests.simulation.cluster.mutants",
    "repairs": "tests.simulation.cluster.repair_mutants",
}
"""Modules by kind, as `make simulate KIND=` has it. Each has its list as `BUGS`."""

REMEMBERED = Path(__file__).parent / "catching_seeds.json"

Plant = Callable[[], AbstractContextManager[Any]]
"""A bug is there while this is entered."""
Replace = Callable[[Any, str, Any], None]
"""(where, name, wrong): one attribute of a class or module is replaced."""
ViolationsOf = Callable[[int], Sequence[str]]
"""The violations that a run of one seed finds."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A function with one text of its source replaced."""

    where: Callable[..., Any]
    right: str
    wrong: str

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Callers that have imported the function get the wrong one, too: its code is exchanged, not its name."""
        function: Any = self.where
        before: CodeType = function.__code__
        function.__code__ = self._code(function)
        try:
            yield
        finally:
            function.__code__ = before

    def _code(self, function: Any) -> CodeType:
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.right) == 1, f"{self.right!r} does not stand in {function.__qualname__} once: adapt the mutant"
        made: dict[str, Any] = {}
        exec(compile(source.replace(self.right, self.wrong), function.__code__.co_filename, "exec"), function.__globals__, made)
        code: CodeType = made[function.__name__].__code__
        # A run would take the NameError for a violation, and the bug for caught.
        undefined = sorted(global_names(code) - function.__globals__.keys() - vars(builtins).keys())
        assert not undefined, f"{self.wrong!r} in {function.__qualname__} uses names that are not defined: {undefined}"
        return code


def global_names(code: CodeType) -> set[str]:
    """The names that the code, with all functions in it, looks up among globals and builtins."""
    names = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(global_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


class Bug(NamedTuple):
    plant: Plant
    seeds: Sequence[int]
    """One of these must catch it."""


class Catch(NamedTuple):
    seeds: int
    """So many seeds were run."""
    violation: str | None
    """The first violation of the last seed; None if no seed caught the bug."""
    seed: int | None = None
    """The seed that caught it."""


@dataclass(slots=True)
class PlantedBugs:
    """The planted bugs of one kind of simulation, and the run that must catch them."""

    kind: str
    violations_of: ViolationsOf
    caught: dict[str, Bug] = field(default_factory=dict)
    guarded: dict[str, Bug] = field(default_factory=dict)
    """Bugs that no seed catches: another line holds what they drop, or they take more than these runs do."""

    def plant(self, name: str) -> AbstractContextManager[Any]:
        return self._bug(name).plant()

    def seeds_to_catch(
        self, name: str, *, seeds: Sequence[int] | None = None, violations_of: ViolationsOf | None = None
    ) -> Catch:
        """Runs `seeds`, or the bug's own, until one finds a violation: the remembered one first, then in order."""
        run, seeds = violations_of or self.violations_of, self._bug(name).seeds if seeds is None else seeds
        remembered = remembered_seeds().get(self.kind, {}).get(name)
        for count, seed in enumerate(sorted(seeds, key=lambda seed: seed != remembered), 1):
            with self.plant(name):
                violations = run(seed)
            if violations:
                return Catch(count, violations[0], seed)
        return Catch(len(seeds), None)

    def _bug(self, name: str) -> Bug:
        return self.caught[name] if name in self.caught else self.guarded[name]


@cache
def remembered_seeds() -> Mapping[str, Mapping[str, int]]:
    """By kind and name of a bug: a seed that caught it."""
    seeds: dict[str, dict[str, int]] = json.loads(REMEMBERED.read_text(encoding="utf-8"))
    return seeds


def lines(mutants: Mapping[str, Mutant], seeds: Sequence[int]) -> dict[str, Bug]:
    return {name: Bug(mutant.planted, seeds) for name, mutant in mutants.items()}


def replacing(bugs: dict[str, Bug], name: str, *, seeds: int, first: int = 0) -> Callable[[Callable[[Replace], None]], None]:
    """Registers the decorated function as a bug that replaces attributes.

    `first`: the seeds before it do not meet the bug, and take a while to show that.
    """

    def add(bug: Callable[[Replace], None]) -> None:
        @contextmanager
        def plant() -> Iterator[None]:
            with ExitStack() as stack:
                bug(lambda where, attribute, wrong: stack.enter_context(patch.object(where, attribute, wrong)))
                yield

        bugs[name] = Bug(plant, range(first, first + seeds))

    return add


def bugs_of(kind: str) -> PlantedBugs:
    bugs: PlantedBugs = importlib.import_module(KINDS[kind]).BUGS
    return bugs


def print_seeds_to_catch(kind: str, names: Sequence[str] = (), *, remember: bool = False) -> int:
    """Prints a line for each bug, in as many processes as there are cores. 0: each was caught."""
    names = names or list(bugs_of(kind).caught)
    workers = min(os.cpu_count() or 1, len(names))
    catches = {}
    with process_pool(workers) as pool:
        for name, (catch, seconds) in zip(names, pool.map(_timed, [kind] * len(names), names), strict=True):
            catches[name] = catch
            print(f"{name}: {catch.seeds} seeds, {seconds:.1f} s: {(catch.violation or 'NOT CAUGHT')[:120]}", flush=True)
    if remember:
        _remember(kind, {name: catch.seed for name, catch in catches.items() if catch.seed is not None})
    return 0 if all(catch.violation is not None for catch in catches.values()) else 1


def _timed(kind: str, name: str) -> tuple[Catch, float]:
    """The catch, and the seconds of CPU that it took. Runs in a process of the pool."""
    logging.disable(logging.CRITICAL if kind == "disk" else logging.NOTSET)
    began = time.process_time()
    return bugs_of(kind).seeds_to_catch(name), time.process_time() - began


def _remember(kind: str, caught_by: Mapping[str, int]) -> None:
    before = remembered_seeds()
    seeds = {**before, kind: {**before.get(kind, {}), **caught_by}}
    REMEMBERED.write_text(json.dumps(seeds, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    kind, *names = [each for each in sys.argv[1:] if each != "--remember"]
    sys.exit(print_seeds_to_catch(kind, names, remember="--remember" in sys.argv))
