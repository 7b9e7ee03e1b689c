"""The simulator of one run of one partition: the clock, randomness, the story, and the violations."""

import gc
import logging
from collections.abc import Coroutine
from contextvars import Context
from random import Random
from typing import Any, ClassVar

from tests.simulation.cluster.loop import LIFE, Deadlock, Life, Spinning, VirtualLoop

DISCARDED_TOGETHER = 100
NO_PROCESS = Context()
"""Of what no process does."""


class Simulator:
    """`story` is told only if `verbose`: that costs more than the run."""

    _discarded: ClassVar[int] = 0

    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.seed = seed
        self.verbose = verbose
        self.loop = VirtualLoop(self.stream("order"))  # type: ignore[abstract]
        self.random = self.stream("run")
        self.story: list[str] = []
        self.violations: list[str] = []
        self._began = self.loop.time()

    def stream(self, name: str) -> Random:
        return Random(f"{self.seed}:{name}")

    def log_event(self, line: str, *about: object) -> None:
        if self.verbose:
            self.story.append(f"{self.loop.time() - self._began:8.4f}  {line % about if about else line}")

    def violation(self, what: str) -> None:
        """The run goes on for the story; one finding is enough."""
        if len(self.violations) < 10:
            self.violations.append(f"at {self.loop.time() - self._began:.4f}: {what}")
        self.log_event("VIOLATION " + what.replace("%", "%%"))

    def run(self, work: Coroutine[Any, Any, None]) -> list[str]:
        """Runs `work` to its end. Returns all that is wrong: violations, failed tasks, and tracebacks that services logged."""
        logged = _LoggedFailures()
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        root.handlers[:] = [logged]
        root.setLevel(logging.ERROR)
        try:
            self.loop.run(work)
        except (Deadlock, Spinning) as error:
            self.violation(f"15: {error!r}")
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)
        return [*self.violations, *self.loop.failures, *logged.failures]

    def discard(self) -> None:
        """Lets go of what half-ran, without the garbage collector's price for each of thousands of runs."""
        loop = self.loop
        with loop.discarding():
            loop.let_go()
            Simulator._discarded += 1
            if Simulator._discarded % DISCARDED_TOGETHER == 0:
                gc.collect()
            gc.freeze() if Simulator._discarded == 1 else None
        gc.disable()


class _LoggedFailures(logging.Handler):
    """A log handler: a service's traceback is a mistake of ours."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.failures: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None:
            self.failures.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


def life_of(name: str) -> tuple[Life, Context]:
    """A life, and the context in which its callbacks are made."""
    life, context = Life(name), Context()
    context.run(LIFE.set, life)
    return life, context
