"""Histories as text, one call a line, for people to write and to read.

    0 send a:1@0                 process 0 sends value 1 to partition a, acknowledged at offset 0
    0 send a:2 ?                 nobody knows; with `!` it failed; a:2@- is acknowledged without an offset
    1 poll a:1@0,2@1 b:7@3       what one poll returned
    0 txn poll a:1@0 send b:5@9 commit g a:1
    1 offsets g a:1              a group's offsets, fetched
    1 assign a b · 1 assign a seek · 1 subscribe a b · 0 crash
    1 poll a:4@3 rebalanced a
    0 > send a:1                 begins, and ends with   0 < send a:1@0
    plain 0 · end                the producer of process 0 is not idempotent · everything was read to the end

A producer with several sends under way completes them in the order in which they began.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from tests.history.model import Commit, F, History, Micro, Op, Poll, Position, Send, Type

ENDS: dict[str, Type] = {"?": "info", "!": "fail"}
WORDS = {"send", "poll", "commit"}


def history_of(text: str) -> History:
    ops: list[Op] = []
    under_way: dict[int, list[int]] = {}
    plain: set[int] = set()
    read_to_end = False
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words[:1] == ["plain"]:
            plain |= {int(word) for word in words[1:]}
        elif words == ["end"]:
            read_to_end = True
        elif words:
            for op in _ops(words, len(ops), under_way):
                ops.append(op)
    return History(tuple(ops), read_to_end, frozenset(plain))


def _ops(words: list[str], index: int, under_way: dict[int, list[int]]) -> Iterator[Op]:
    process = int(words.pop(0))
    half = words.pop(0) if words[0] in "<>" else None
    ended: Type = ENDS[words.pop()] if words[-1] in ENDS else "ok"
    f, rest = _f(words[0]), words[1:]
    rebalanced: frozenset[str] = frozenset()
    if "rebalanced" in rest:
        at = rest.index("rebalanced")
        rebalanced, rest = frozenset(rest[at + 1 :]), rest[:at]
    keys: tuple[str, ...] = ()
    sought = False
    value: tuple[Micro, ...] = ()
    if f in ("assign", "subscribe"):
        sought = "seek" in rest
        keys = tuple(word for word in rest if word != "seek")
    elif f == "offsets":
        value = (Position(rest[0], _pairs(rest[1:])),)
    elif f == "txn":
        value = tuple(_micros(rest))
    elif rest:
        value = tuple(_micros([f, *rest]))
    if f == "crash":
        yield Op(index, index, process, "info", f)
        return
    if half != "<":
        begun = tuple(Send(one.key, one.value) for one in value if isinstance(one, Send))
        yield Op(index, index, process, "invoke", f, begun, keys=keys, sought=sought)
        under_way.setdefault(process, []).append(index)
        index += 1
    if half != ">":
        invoked = under_way[process].pop(0)
        yield Op(index, index, process, ended, f, value, rebalanced, keys, sought, invoked)


def _f(word: str) -> F:
    known: tuple[F, ...] = ("assign", "subscribe", "poll", "send", "txn", "offsets", "crash")
    return next(f for f in known if f == word)


def _micros(words: Sequence[str]) -> Iterator[Micro]:
    verb = ""
    for is_verb, group in groupby(words, lambda word: word in WORDS):
        found = list(group)
        if is_verb:
            verb = found[-1]
        elif verb == "send":
            yield from (_send(word) for word in found)
        elif verb == "poll":
            yield Poll({key: tuple(_record(one) for one in rest.split(",")) for key, rest in (word.split(":") for word in found)})
        else:
            yield Commit(found[0], _pairs(found[1:]))


def _send(word: str) -> Send:
    key, rest = word.split(":")
    value, _, offset = rest.partition("@")
    return Send(key, int(value), int(offset) if offset not in ("", "-") else None)


def _record(word: str) -> tuple[int, int]:
    value, offset = word.split("@")
    return int(offset), int(value)


def _pairs(words: Sequence[str]) -> dict[str, int]:
    return {key: int(offset) for key, offset in (word.split(":") for word in words)}
