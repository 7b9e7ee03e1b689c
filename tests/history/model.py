"""The parts of a history, as values and as JSON lines.

Keys are partitions, values are unique integers. A process is one producer and one consumer. Its calls come one after the other,
except for sends, of which a producer may have several under way: then `invoked` tells which one a completion belongs to.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Key = str
Value = int
Offset = int
Type = Literal["invoke", "ok", "info", "fail"]
F = Literal["assign", "subscribe", "poll", "send", "txn", "offsets", "crash"]


@dataclass(frozen=True, slots=True)
class Send:
    key: Key
    value: Value
    offset: Offset | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    records: Mapping[Key, tuple[tuple[Offset, Value], ...]]


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a group's offsets within a transaction: the next offset to read, by partition."""

    group: str
    offsets: Mapping[Key, Offset]


@dataclass(frozen=True, slots=True)
class Position:
    """A group's offsets as they were fetched."""

    group: str
    offsets: Mapping[Key, Offset]


Micro = Send | Poll | Commit | Position


@dataclass(frozen=True, slots=True)
class Op:
    """The beginning or the end of a call. `info`: nobody knows whether it happened."""

    index: int
    time_ns: int
    process: int
    type: Type
    f: F
    value: tuple[Micro, ...] = ()
    rebalanced_keys: frozenset[Key] = frozenset()
    """Partitions that came to this consumer, or went, during the call."""
    keys: tuple[Key, ...] = ()
    """Of assign and subscribe."""
    sought: bool = False
    """Of assign: the consumer went to the beginning of all its partitions."""
    invoked: int | None = None
    """The index of the invocation that this completes; None: the only one that its process has open."""


@dataclass(frozen=True)
class History:
    """`read_to_end`: it ends with a phase in which every partition was read up to its highest known offset.

    `plain`: processes whose producer is not idempotent: its retries may store a record twice, or behind a later one.
    """

    ops: tuple[Op, ...]
    read_to_end: bool = False
    plain: frozenset[int] = frozenset()
    about: Mapping[str, Any] = field(default_factory=dict)
    """Whatever helps to understand it, e.g. the seed."""


def write(history: History, path: Path) -> None:
    with open(path, "w", encoding="utf-8") as file:
        head = {"read_to_end": history.read_to_end, "plain": sorted(history.plain), "about": history.about}
        file.write(json.dumps(head) + "\n")
        file.writelines(json.dumps(to_json(op), separators=(",", ":")) + "\n" for op in history.ops)


def read(path: Path) -> History:
    with open(path, encoding="utf-8") as file:
        head = json.loads(file.readline())
        ops = tuple(from_json(json.loads(line)) for line in file)
    return History(ops, head["read_to_end"], frozenset(head["plain"]), head["about"])


def to_json(op: Op) -> dict[str, Any]:
    """Leaves out what is as by default."""
    said: dict[str, Any] = {"index": op.index, "time_ns": op.time_ns, "process": op.process, "type": op.type, "f": op.f}
    if op.value:
        said["value"] = [_micro_to_json(micro) for micro in op.value]
    if op.rebalanced_keys:
        said["rebalanced_keys"] = sorted(op.rebalanced_keys)
    if op.keys:
        said["keys"] = list(op.keys)
    if op.sought:
        said["sought"] = True
    if op.invoked is not None:
        said["invoked"] = op.invoked
    return said


def from_json(said: Mapping[str, Any]) -> Op:
    return Op(
        said["index"],
        said["time_ns"],
        said["process"],
        said["type"],
        said["f"],
        tuple(_micro_from_json(micro) for micro in said.get("value", ())),
        frozenset(said.get("rebalanced_keys", ())),
        tuple(said.get("keys", ())),
        said.get("sought", False),
        said.get("invoked"),
    )


def _micro_to_json(micro: Micro) -> list[Any]:
    match micro:
        case Send(key, value, offset):
            return ["send", key, value, offset]
        case Poll(records):
            return ["poll", {key: [list(pair) for pair in pairs] for key, pairs in records.items()}]
        case Commit(group, offsets):
            return ["commit", group, dict(offsets)]
        case Position(group, offsets):
            return ["position", group, dict(offsets)]


def _micro_from_json(said: list[Any]) -> Micro:
    match said:
        case ["send", key, value, offset]:
            return Send(key, value, offset)
        case ["poll", records]:
            return Poll({key: tuple((offset, value) for offset, value in pairs) for key, pairs in records.items()})
        case ["commit", group, offsets]:
            return Commit(group, offsets)
        case ["position", group, offsets]:
            return Position(group, offsets)
    raise ValueError(f"no such micro-operation: {said}")


def sends(micros: Iterable[Micro]) -> Iterator[Send]:
    return (micro for micro in micros if isinstance(micro, Send))


def polled(micros: Iterable[Micro]) -> Iterator[tuple[Key, Offset, Value]]:
    for micro in micros:
        if isinstance(micro, Poll):
            for key, pairs in micro.records.items():
                for offset, value in pairs:
                    yield key, offset, value
