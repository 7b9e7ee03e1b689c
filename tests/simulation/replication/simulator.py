"""What everything in one run of one partition shares: the clock, randomness, the story, and what was found to be wrong."""

import gc
from contextvars import Context
from random import Random

from tests.simulation.cluster.loop import LIFE, Life, VirtualLoop

BURIED_TOGETHER = 100
WORLD = Context()
"""Of what no process does."""


class Bench:
    """`story` is told only if `tells`: that costs more than the run."""

    _buried = 0

    def __init__(self, seed: int, *, tells: bool = False) -> None:
        self.seed = seed
        self.tells = tells
        self.loop = VirtualLoop(self.stream("order"))  # type: ignore[abstract]
        self.random = self.stream("run")
        self.story: list[str] = []
        self.violations: list[str] = []
        self._began = self.loop.time()

    def stream(self, name: str) -> Random:
        return Random(f"{self.seed}:{name}")

    def tell(self, line: str, *about: object) -> None:
        if self.tells:
            self.story.append(f"{self.loop.time() - self._began:8.4f}  {line % about if about else line}")

    def violation(self, what: str) -> None:
        """The run goes on for the story; one finding is enough."""
        if len(self.violations) < 10:
            self.violations.append(f"at {self.loop.time() - self._began:.4f}: {what}")
        self.tell("VIOLATION " + what.replace("%", "%%"))

    def bury(self) -> None:
        """Lets go of what half-ran, without the garbage collector's price for each of thousands of runs."""
        loop = self.loop
        with loop.burying():
            loop._closed = True
            for kept in (loop._ready, loop._heap, loop._abandoned, loop._tasks):
                kept.clear()
            Bench._buried += 1
            if Bench._buried % BURIED_TOGETHER == 0:
                gc.collect()
            gc.freeze() if Bench._buried == 1 else None
        gc.disable()


def life_of(name: str) -> tuple[Life, Context]:
    """A life, and the context in which its callbacks are made."""
    life, context = Life(name), Context()
    context.run(LIFE.set, life)
    return life, context
