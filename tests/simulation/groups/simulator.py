"""Virtual time in ms for what takes no event loop: whatever is due at one instant runs in an order that the seed draws."""

import hashlib
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

STEPS_MAX = 20_000


class Violated(Exception):
    """A violation: the run ends here."""


class Simulator:
    def __init__(self, seed: int, *, verbose: bool) -> None:
        self.random = Random(seed)
        self.now_ms = 1_000_000_000
        self.began_ms = self.now_ms
        self.story: list[str] = []
        self.steps = 0
        self._verbose = verbose
        self._digest = hashlib.sha256()
        self._heap: list[tuple[float, float, int, Callable[..., None], tuple[object, ...]]] = []
        self._count = 0

    def later(self, ms: float, what: Callable[..., None], *args: object) -> None:
        self._count += 1
        heappush(self._heap, (self.now_ms + int(ms), self.random.random(), self._count, what, args))

    def log_event(self, line: str) -> None:
        self._digest.update(b"%d %s\n" % (self.now_ms, line.encode()))
        if self._verbose:
            self.story.append(f"{(self.now_ms - self.began_ms) / 1000:8.3f} {line}")

    def note(self, *what: object) -> None:
        """Adds a line to the story alone, when it is verbose."""
        if self._verbose:
            self.story.append(f"{(self.now_ms - self.began_ms) / 1000:8.3f}   {' '.join(map(str, what))}")

    def fail(self, violation: str) -> None:
        self.log_event(f"VIOLATION {violation}")
        raise Violated(violation)

    def run(self, ms: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Runs for so long, or until the condition holds."""
        heap, end_ms = self._heap, self.now_ms + ms
        while not until():
            if not heap or heap[0][0] > end_ms:
                self.now_ms = int(end_ms)
                return until()
            at_ms, _, _, what, args = heappop(heap)
            self.now_ms = int(at_ms)
            self.steps += 1
            if self.steps > STEPS_MAX:
                self.fail(f"{STEPS_MAX} steps, and no end")
            what(*args)
        return True

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()
