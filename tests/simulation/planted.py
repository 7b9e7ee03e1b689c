"""Bugs that are planted one at a time, each one line that somebody might write, and how many seeds it takes to catch one."""

import inspect
import multiprocessing
import os
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any

from tests.simulation.small_runs import R


@dataclass(frozen=True, slots=True)
class Mutant:
    where: Callable[..., Any]
    right: str
    wrong: str

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Whoever has imported the function has the wrong one too: its code is exchanged, not its name."""
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
        return code


def seeds_to_catch(mutant: Mutant, run_one: Callable[[int], R], most: int) -> tuple[int, R | None]:
    """How many seeds it took, from 0 on, and what the last one found; `most`, and None, if none did."""
    with mutant.planted():
        for seed in range(most):
            report = run_one(seed)
            if report.violations:
                return seed + 1, report
    return most, None


def told(name: str, caught: Callable[[str], tuple[int, R | None]]) -> tuple[str, bool]:
    """What is printed of it, and whether it was caught."""
    began = time.process_time()
    count, report = caught(name)
    found = report.violations[0][:120] if report is not None else "NOT CAUGHT"
    return f"{name}: {count} seeds, {time.process_time() - began:.1f} s: {found}", report is not None


def tell_all(told: Callable[[str], tuple[str, bool]], names: Sequence[str]) -> int:
    """In as many processes as there are cores. 0: each was caught."""
    workers = min(os.cpu_count() or 1, len(names))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        caught = True
        for line, found in pool.map(told, names):
            caught &= found
            print(line, flush=True)
    return 0 if caught else 1
