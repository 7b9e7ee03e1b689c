"""The recorder of the calls and answers of clients, as `tests.history` judges them."""

from collections.abc import Sequence

from tests.history.model import F, History, Key, Micro, Op, Send, Type, Value
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

    def stored(self, begun: int, key: Key, values: Sequence[Value], offset: int) -> None:
        """A send is acknowledged. -1: nobody said where."""
        if offset < 0:
            self.end(begun, "ok", tuple(Send(key, value) for value in values))
            return
        self.end(begun, "ok", tuple(Send(key, value, offset + at) for at, value in enumerate(values)))
        self.acknowledged[key] = max(offset + len(values) - 1, self.acknowledged.get(key, -1))

    def history(self, seed: int) -> History:
        """The recorded history. Duplicates are not excused: clients resend only with a producer id."""
        return History(tuple(self._ops), read_to_end=True, about={"seed": seed})

    def _now(self) -> int:
        return int(self._loop.time() * 1e9)
