"""A small coordinator for tests: numbers on a shelf, some of which expire, and callers that wait for one."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from libs.coordinator.core.decisions import Decision, Expired, KeyValue
from libs.coordinator.core.tables import Journal, Table
from libs.coordinator.core.timers import TimerKey
from libs.wire.record_batches.keyed_batches import TransactionalBatch

NEVER = -1


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    number: int
    expires_ms: int = NEVER


@dataclass(frozen=True, slots=True)
class Add:
    """Decides on what it reads."""

    key: str
    number: int


@dataclass(frozen=True, slots=True)
class Remove:
    key: str


@dataclass(frozen=True, slots=True)
class Read:
    key: str
    current: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    key: str
    who: int


@dataclass(frozen=True, slots=True)
class Fail:
    """Raises, in `decide` or in the middle of a replay."""

    replaying: bool


Event = Put | Add | Remove | Read | Wait | Fail


@dataclass(frozen=True, slots=True)
class Stored:
    key: str
    number: int
    expires_ms: int


@dataclass(frozen=True, slots=True)
class Removed:
    key: str


@dataclass(frozen=True, slots=True)
class Waited:
    """Not kept in the log."""

    key: str
    who: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    pass


Recorded = Stored | Removed | Waited | Broken


class Shelf:
    def __init__(self, journal: Journal) -> None:
        self.numbers: Table[str, tuple[int, int]] = Table(journal)
        self.waiting: Table[str, tuple[int, ...]] = Table(journal)

    def decide(self, event: Event | Expired, now_ms: int) -> Decision[str, Recorded]:
        match event:
            case Put(key, number, expires_ms):
                return self._store(key, number, expires_ms)
            case Add(key, number):
                had, expires_ms = self.numbers.get(key, (0, NEVER))
                return self._store(key, had + number, expires_ms)
            case Remove(key):
                return self._remove(key, self._see(key))
            case Read(key, current):
                return Decision(self._see(key), current=current)
            case Wait(key, who):
                return Decision(None, [Waited(key, (*self.waiting.get(key, ()), who))], parks_as=("waits", who))
            case Fail(replaying):
                if not replaying:
                    raise RuntimeError("cannot decide")
                return Decision("never said", [Stored("a", 99, NEVER), Broken()])
            case Expired(("expiry", str(key))):
                result = self.numbers.get(key)
                if result is None or not NEVER < result[1] <= now_ms:
                    return Decision()
                return self._remove(key, None)
        raise AssertionError(event)

    def decide_smaller(self, event: Event | Expired, now_ms: int) -> Decision[str, Recorded] | None:
        return None

    def _see(self, key: str) -> str:
        return str(self.numbers[key][0]) if key in self.numbers else "nothing"

    def _store(self, key: str, number: int, expires_ms: int) -> Decision[str, Recorded]:
        records: list[Recorded] = [Stored(key, number, expires_ms)]
        waiting = self.waiting.get(key, ())
        if waiting:
            records.append(Waited(key, ()))
        wakes = [(("waits", who), str(number)) for who in waiting]
        timers: dict[TimerKey, int | None] = {("expiry", key): expires_ms if expires_ms != NEVER else None}
        return Decision(str(number), records, timers, wakes=wakes)

    def _remove(self, key: str, reply: str | None) -> Decision[str, Recorded]:
        return Decision(reply, [Removed(key)], {("expiry", key): None})

    def replay(self, record: Recorded) -> None:
        match record:
            case Stored(key, number, expires_ms):
                self.numbers[key] = number, expires_ms
            case Removed(key):
                self.numbers.pop(key, None)
            case Waited(key, ()):
                self.waiting.pop(key, None)
            case Waited(key, who):
                self.waiting[key] = who
            case Broken():
                raise RuntimeError("cannot replay")

    def encode(self, record: Recorded) -> KeyValue | None:
        match record:
            case Stored(key, number, expires_ms):
                return KeyValue(key.encode(), json.dumps([number, expires_ms]).encode())
            case Removed(key):
                return KeyValue(key.encode(), None)
        return None

    def decode(self, key: bytes, value: bytes | None, transaction: TransactionalBatch | None) -> Recorded | None:
        if value is None:
            return Removed(key.decode())
        number, expires_ms = json.loads(value)
        return Stored(key.decode(), number, expires_ms)

    def timers(self, now_ms: int) -> Iterable[tuple[TimerKey, int]]:
        for key, (_, expires_ms) in self.numbers.items():
            if expires_ms != NEVER:
                yield ("expiry", key), expires_ms


def replayed(log: Iterable[KeyValue]) -> dict[str, Any]:
    """The content of a shelf after that log: the dumb model."""
    held: dict[str, Any] = {}
    for key, value in log:
        if value is None:
            held.pop(key.decode(), None)
        else:
            held[key.decode()] = tuple(json.loads(value))
    return held
