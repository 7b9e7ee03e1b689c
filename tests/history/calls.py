"""Calls: each invocation with its completion."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.history.model import Commit, F, Key, Offset, Op, Position, Send, Type, Value, polled, sends

NEVER = 1 << 62


class MalformedHistory(ValueError):
    """A mistake of the recorder, not of the cluster."""


@dataclass(frozen=True, slots=True)
class Call:
    """`begun`, `ended`: indexes of its ops; what never ended is info, and so is what its process did not survive."""

    begun: int
    ended: int
    process: int
    type: Type
    f: F
    sends: tuple[Send, ...]
    polls: tuple[tuple[Key, Offset, Value], ...]
    commits: tuple[Commit, ...]
    positions: tuple[Position, ...]
    rebalanced_keys: frozenset[Key]
    keys: tuple[Key, ...]
    sought: bool

    def __str__(self) -> str:
        parts = [f"send {one.key}:{one.value}" + ("" if one.offset is None else f"@{one.offset}") for one in self.sends]
        by_key: dict[Key, list[str]] = {}
        for key, offset, value in self.polls:
            by_key.setdefault(key, []).append(f"{value}@{offset}")
        parts += [f"poll {key}:{_shortened(found)}" for key, found in by_key.items()]
        parts += [f"commit {one.group} {dict(one.offsets)}" for one in self.commits]
        parts += [f"position {one.group} {dict(one.offsets)}" for one in self.positions]
        parts += [*self.keys, "from the beginning"] if self.sought else self.keys
        end = "" if self.ended == NEVER else str(self.ended)
        return f"{self.begun}..{end} process {self.process} {self.f} {self.type}: {', '.join(parts)}"


def _shortened(found: Sequence[str]) -> str:
    return ",".join(found) if len(found) <= 8 else f"{','.join(found[:4])},… {len(found) - 8} more …,{','.join(found[-4:])}"


def pair(ops: Sequence[Op]) -> list[Call]:
    """The calls, in the order in which they began."""
    open_of: dict[int, dict[int, Op]] = {}
    calls = []
    last = -1
    for op in ops:
        if op.index <= last:
            raise MalformedHistory(f"op {op.index} comes after op {last}")
        last = op.index
        mine = open_of.setdefault(op.process, {})
        if op.f == "crash":
            continue
        if op.type == "invoke":
            mine[op.index] = op
            continue
        if op.invoked is None and len(mine) != 1:
            raise MalformedHistory(f"op {op.index} completes one of {len(mine)} calls of process {op.process}")
        begun = mine.pop(next(iter(mine)) if op.invoked is None else op.invoked, None)
        if begun is None or begun.f != op.f:
            raise MalformedHistory(f"op {op.index} completes what never began")
        calls.append(_call(begun, op))
    calls += [_call(begun, None) for mine in open_of.values() for begun in mine.values()]
    return sorted(calls, key=lambda call: call.begun)


def _call(begun: Op, end: Op | None) -> Call:
    """An end without sends leaves those that were begun: a record whose fate nobody knows may have been stored."""
    value = end.value if end is not None and end.value else begun.value
    sent = tuple(sends(value))
    return Call(
        begun.index,
        NEVER if end is None or end.type == "info" else end.index,
        begun.process,
        "info" if end is None else end.type,
        begun.f,
        sent or tuple(sends(begun.value)),
        tuple(polled(value)),
        tuple(micro for micro in value if isinstance(micro, Commit)),
        tuple(micro for micro in value if isinstance(micro, Position)),
        begun.rebalanced_keys if end is None else begun.rebalanced_keys | end.rebalanced_keys,
        begun.keys,
        begun.sought or (end is not None and end.sought),
    )
