"""What clients did and saw, as `tests.history` judges it."""

from tests.history.model import F, History, Key, Micro, Op, Type
from tests.simulation.cluster.loop import VirtualLoop


class Recorder:
    """One per run. Processes are numbers that are never used again."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._ops: list[Op] = []
        self._processes = 0
        self._begun: dict[int, tuple[int, F]] = {}
        self.acknowledged: dict[Key, int] = {}
        """The highest offset of which a client was told, by partition."""

    @property
    def calls(self) -> int:
        """Those that ended."""
        return len(self._ops) // 2

    def process(self) -> int:
        self._processes += 1
        return self._processes

    def begin(
        self, process: int, f: F, value: tuple[Micro, ...] = (), *, keys: tuple[Key, ...] = (), sought: bool = False
    ) -> int:
        number = len(self._ops)
        self._ops.append(Op(number, self._now(), process, "invoke", f, value, keys=keys, sought=sought))
        self._begun[number] = process, f
        return number

    def end(self, begun: int, kind: Type, value: tuple[Micro, ...] = ()) -> None:
        process, f = self._begun.pop(begun)
        self._ops.append(Op(len(self._ops), self._now(), process, kind, f, value, invoked=begun))

    def history(self, seed: int) -> History:
        """Nobody is excused for storing twice: no client here sends again what may have been stored, but with a producer id."""
        return History(tuple(self._ops), read_to_end=True, about={"seed": seed})

    def _now(self) -> int:
        return int(self._loop.time() * 1e9)
