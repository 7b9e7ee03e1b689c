"""Writes down every call of every client, as it begins and as it ends: `tests.history` judges that."""

import itertools
import threading
import time
from collections.abc import Mapping
from typing import Any

from tests.history.model import F, History, Key, Micro, Offset, Op, Poll, Send, Type

PAYLOAD = b" the same words in every record"


def key_of(topic: str, partition: int) -> Key:
    return f"{topic}-{partition}"


def value_in(payload: bytes | None) -> int:
    """The number that `payload_of` put there; -1 for what no producer of ours wrote."""
    head = (payload or b"").partition(b" ")[0]
    return int(head) if head.isdigit() else -1


def payload_of(value: int) -> bytes:
    return b"%d" % value + PAYLOAD


class Recorder:
    """One for all clients: the order of its ops is the order in which they happened. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ops: list[Op] = []
        self._processes = itertools.count()
        self._values = itertools.count(1)
        self._plain: set[int] = set()
        self._ends: dict[Key, Offset] = {}
        self._acknowledged: dict[tuple[int, Key], int] = {}
        self.surprises: list[str] = []
        """What a client should never have been told."""

    def process(self, *, plain: bool = False) -> int:
        """A new one. `plain`: its producer is not idempotent."""
        with self._lock:
            number = next(self._processes)
            if plain:
                self._plain.add(number)
            return number

    def value(self) -> int:
        return next(self._values)

    def begin(self, process: int, f: F, value: tuple[Micro, ...] = (), *, keys: tuple[Key, ...] = (), sought: bool = False) -> Op:
        with self._lock:
            op = Op(len(self._ops), time.monotonic_ns(), process, "invoke", f, value, frozenset(), keys, sought)
            self._ops.append(op)
            return op

    def end(self, begun: Op, type: Type, value: tuple[Micro, ...] = ()) -> None:
        with self._lock:
            op = Op(
                len(self._ops),
                time.monotonic_ns(),
                begun.process,
                type,
                begun.f,
                value,
                frozenset(),
                begun.keys,
                begun.sought,
                begun.index,
            )
            self._ops.append(op)
            for micro in value:
                self._count(op, micro)

    def _count(self, op: Op, micro: Micro) -> None:
        match micro:
            case Send(key, _, offset) if op.type == "ok":
                self._acknowledged[op.process, key] = self._acknowledged.get((op.process, key), 0) + 1
                if offset is not None:
                    self._ends[key] = max(self._ends.get(key, -1), offset)
            case Poll(records):
                for key, found in records.items():
                    self._ends[key] = max(self._ends.get(key, -1), found[-1][0])

    def surprise(self, words: str) -> None:
        with self._lock:
            self.surprises.append(words)

    def acknowledged(self) -> Mapping[tuple[int, Key], int]:
        """The number of acknowledged records by process and partition."""
        with self._lock:
            return dict(self._acknowledged)

    def ends(self) -> Mapping[Key, Offset]:
        """The highest offset of each partition that any client was told of."""
        with self._lock:
            return dict(self._ends)

    def history(self, *, read_to_end: bool, about: Mapping[str, Any]) -> History:
        with self._lock:
            return History(tuple(self._ops), read_to_end, frozenset(self._plain), about)
