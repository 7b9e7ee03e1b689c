"""A cluster so dumb that it must be right: a list for each partition. What clients see of it, also with one defect planted."""

import random
from dataclasses import dataclass, field

from tests.history.model import Commit, F, History, Micro, Op, Poll, Position, Send, Type

KEYS = ("a", "b", "c")
GROUP = "g"
PRODUCERS, CONSUMERS, TRANSFORMERS = 3, 3, 2
TRANSFORMED = "a"

DEFECTS: dict[str, frozenset[str]] = {
    "acknowledged and not stored": frozenset({"unseen"}),
    "acknowledged and overwritten": frozenset({"inconsistent-offsets"}),
    "hidden from readers": frozenset({"lost-write"}),
    "stored twice": frozenset({"duplicate"}),
    "swapped with its neighbour": frozenset({"nonmonotonic-send", "backward-send", "inconsistent-offsets"}),
    "stored although it was refused": frozenset({"aborted-read"}),
    "stored in another partition": frozenset({"unwritten-read"}),
    "changed on the way": frozenset({"unwritten-read"}),
    "a poll goes back": frozenset({"nonmonotonic-poll"}),
    "a poll leaves one out": frozenset({"poll-skip"}),
    "acknowledged at the offset before": frozenset({"inconsistent-offsets"}),
    "read before it is committed": frozenset({"precommitted-read"}),
    "an aborted transaction is visible": frozenset({"aborted-read"}),
    "half of a transaction is not stored": frozenset({"torn-transaction"}),
    "committed offsets go back": frozenset({"lost-offsets"}),
    "a transaction reads what another read already": frozenset({"repeated-input"}),
}


@dataclass
class Under:
    """A call under way."""

    index: int
    process: int
    f: F
    micros: list[Micro] = field(default_factory=list)


class ReferenceCluster:
    """`defect`: what it does wrong, once, when the chance comes. `planted` says whether it came."""

    def __init__(self, seed: int, *, defect: str | None = None) -> None:
        self._chance = random.Random(seed)
        self._defect = defect
        self._logs: dict[str, list[int | None]] = {key: [] for key in KEYS}
        self._hidden: set[int] = set()
        self._ops: list[Op] = []
        self._values = 0
        self._next_process = PRODUCERS + CONSUMERS + TRANSFORMERS
        self._positions: dict[int, dict[str, int]] = {}
        self._following: dict[int, set[str]] = {}
        self._committed = 0
        self.planted = False

    def history(self, steps: int) -> History:
        producers = list(range(PRODUCERS))
        consumers = list(range(PRODUCERS, PRODUCERS + CONSUMERS))
        for process in consumers:
            self._positions[process] = dict.fromkeys(KEYS, 0)
        transformers = list(range(PRODUCERS + CONSUMERS, PRODUCERS + CONSUMERS + TRANSFORMERS))
        under_way: list[Under] = []
        for _ in range(steps):
            step = self._chance.random()
            if step < 0.35 and len(under_way) < 12:
                under_way.append(self._begin_send(self._chance.choice(producers)))
            elif step < 0.6 and under_way:
                call = under_way.pop(0)
                if not self._end_send(call) and self._chance.random() < 0.3:
                    self._crash(producers, under_way, call.process)
            elif step < 0.85:
                self._poll(self._chance.choice(consumers))
            elif step < 0.95:
                self._transform(transformers, self._chance.randrange(TRANSFORMERS))
            elif step < 0.98:
                self._offsets(self._chance.choice(consumers))
            else:
                self._move(self._chance.choice(consumers))
        while under_way:
            self._end_send(under_way.pop(0))
        self._read_to_end(consumers)
        return History(tuple(self._ops), read_to_end=True)

    def _now(self, defect: str) -> bool:
        if self._defect != defect or self.planted or self._chance.random() < 0.7:
            return False
        self.planted = True
        return True

    def _say(self, process: int, type: Type, f: F, micros: list[Micro], invoked: int | None = None, **more: object) -> int:
        index = len(self._ops)
        rebalanced = more.get("rebalanced", frozenset())
        assert isinstance(rebalanced, frozenset)
        keys = KEYS if f == "assign" else ()
        self._ops.append(Op(index, index, process, type, f, tuple(micros), rebalanced, keys, bool(more.get("sought")), invoked))
        return index

    def _begin_send(self, process: int) -> Under:
        micros: list[Micro] = []
        for _ in range(self._chance.choice((1, 1, 3))):
            self._values += 1
            micros.append(Send(self._chance.choice(KEYS), self._values))
        return Under(self._say(process, "invoke", "send", micros), process, "send", micros)

    def _end_send(self, call: Under) -> bool:
        """Returns whether it is known what became of it."""
        fate = self._chance.random()
        if fate < 0.1:
            if self._now("stored although it was refused"):
                self._store(call.micros)
            self._say(call.process, "fail", call.f, call.micros, call.index)
            return True
        if fate < 0.2:
            if self._chance.random() < 0.5:
                self._store(call.micros[: self._chance.randrange(len(call.micros) + 1)])
            self._say(call.process, "info", call.f, call.micros, call.index)
            return False
        self._say(call.process, "ok", call.f, self._store(call.micros, acknowledged=True), call.index)
        return True

    def _store(self, micros: list[Micro], *, acknowledged: bool = False) -> list[Micro]:
        stored: list[Micro] = []
        for micro in micros:
            assert isinstance(micro, Send)
            offset = self._append(micro) if acknowledged else self._put(micro.key, micro.value)
            stored.append(Send(micro.key, micro.value, offset))
        return stored

    def _put(self, key: str, value: int) -> int:
        self._logs[key].append(value)
        return len(self._logs[key]) - 1

    def _append(self, send: Send) -> int | None:
        log = self._logs[send.key]
        if self._now("acknowledged and not stored"):
            return None
        if self._now("stored in another partition"):
            other = KEYS[(KEYS.index(send.key) + 1) % len(KEYS)]
            return self._put(other, send.value) and None
        if self._now("changed on the way"):
            self._put(send.key, -send.value)
            return None
        offset = self._put(send.key, send.value)
        if self._now("stored twice"):
            self._put(send.key, send.value)
        if self._now("hidden from readers"):
            self._hidden.add(send.value)
            self._values += 1
            self._acknowledge_another(send.key)
        if self._now("acknowledged and overwritten"):
            log.pop()
            self._acknowledge_another(send.key)
        if offset and log[offset - 1] is not None and self._now("swapped with its neighbour"):
            log[offset - 1], log[offset] = log[offset], log[offset - 1]
        if offset and log[offset - 1] is not None and self._now("acknowledged at the offset before"):
            return offset - 1
        return offset

    def _acknowledge_another(self, key: str) -> None:
        self._values += 1
        process = self._next_process
        self._next_process += 1
        begun = self._say(process, "invoke", "send", [Send(key, self._values)])
        self._say(process, "ok", "send", [Send(key, self._values, self._put(key, self._values))], begun)

    def _crash(self, producers: list[int], under_way: list[Under], process: int) -> None:
        """A client dies: the outcome of its calls in flight stays unknown."""
        for call in [call for call in under_way if call.process == process]:
            under_way.remove(call)
            if self._chance.random() < 0.5:
                self._store(call.micros)
        self._say(process, "info", "crash", [])
        producers[producers.index(process)] = self._next_process
        self._next_process += 1

    def _read(self, positions: dict[str, int], keys: tuple[str, ...], most: int, following: set[str]) -> Poll:
        """`following`: partitions of which the consumer had the record before, and which were not moved meanwhile."""
        found: dict[str, tuple[tuple[int, int], ...]] = {}
        for key in keys:
            log, at = self._logs[key], positions[key]
            if at and key in following and self._now("a poll goes back"):
                at = self._last_record_before(key, at)
            taken = [(offset, value) for offset, value in enumerate(log[at : at + most], at) if value is not None]
            taken = [(offset, value) for offset, value in taken if value not in self._hidden]
            positions[key] = max(positions[key], min(len(log), at + most))
            if len(taken) > 2 and key in following and self._now("a poll leaves one out"):
                del taken[1]
            if taken:
                found[key] = tuple(taken)
                following.add(key)
        return Poll(found)

    def _last_record_before(self, key: str, at: int) -> int:
        return next((offset for offset in range(at - 1, -1, -1) if self._logs[key][offset] is not None), 0)

    def _poll(self, process: int) -> None:
        begun = self._say(process, "invoke", "poll", [])
        keys = tuple(self._chance.sample(KEYS, self._chance.randint(0, len(KEYS))))
        rebalanced: frozenset[str] = frozenset()
        if keys and self._chance.random() < 0.05:
            rebalanced = frozenset(keys[:1])
            self._positions[process][keys[0]] = self._chance.randint(0, len(self._logs[keys[0]]))
        following = self._following.setdefault(process, set()) - rebalanced
        micros: list[Micro] = [self._read(self._positions[process], keys, self._chance.randint(1, 8), following)]
        self._following[process] = following - rebalanced
        self._say(process, "ok", "poll", micros, begun, rebalanced=rebalanced)

    def _move(self, process: int) -> None:
        self._positions[process] = dict.fromkeys(KEYS, 0)
        self._following[process] = set()
        begun = self._say(process, "invoke", "assign", [], sought=True)
        self._say(process, "ok", "assign", [], begun, sought=True)

    def _transform(self, transformers: list[int], which: int) -> None:
        """Consumes one partition and produces to the others, in one transaction, alone at its time."""
        process = transformers[which]
        positions = {TRANSFORMED: self._committed}
        fate = self._chance.random()
        if self._committed and fate >= 0.3 and self._now("a transaction reads what another read already"):
            positions[TRANSFORMED] = self._last_record_before(TRANSFORMED, self._committed)
        self._values += 1
        sent = [Send("b", self._values)]
        if self._chance.random() < 0.5:
            self._values += 1
            sent.append(Send("c", self._values))
        begun = self._say(process, "invoke", "txn", [*sent])
        start = positions[TRANSFORMED]
        log = self._logs[TRANSFORMED]
        found = tuple((at, value) for at, value in enumerate(log[start : start + 5], start) if value is not None)
        found = tuple((at, value) for at, value in found if value not in self._hidden)
        end = min(len(log), start + 5)
        micros: list[Micro] = [Poll({TRANSFORMED: found})] if found else []
        if start < end:
            micros.append(Commit(GROUP, {TRANSFORMED: end}))
        turn = frozenset({TRANSFORMED})
        if fate < 0.2:
            visible = self._now("an aborted transaction is visible")
            for send in sent:
                self._logs[send.key] += [send.value if visible else None, None]
            self._say(process, "fail", "txn", [*micros, *sent], begun, rebalanced=turn)
        elif fate < 0.3:
            if self._chance.random() < 0.5:
                self._committed = end
                for send in sent:
                    self._put(send.key, send.value)
            self._say(process, "info", "txn", [*micros, *sent], begun, rebalanced=turn)
            transformers[which] = self._next_process
            self._next_process += 1
        else:
            before, self._committed = self._committed, end
            is_torn = len(sent) > 1 and self._now("half of a transaction is not stored")
            stored = [Send(send.key, send.value, self._put(send.key, send.value)) for send in sent[: 1 if is_torn else None]]
            for send in sent:
                self._logs[send.key].append(None)
            early: list[Micro] = []
            if self._now("read before it is committed"):
                offset = stored[0].offset
                assert offset is not None
                early = [Poll({stored[0].key: ((offset, stored[0].value),)})]
            self._say(process, "ok", "txn", [*micros, *early, *stored, *sent[len(stored) :]], begun, rebalanced=turn)
            if 0 < before < end and self._now("committed offsets go back"):
                self._committed = before
                self._offsets(process)

    def _offsets(self, process: int) -> None:
        begun = self._say(process, "invoke", "offsets", [])
        known: list[Micro] = [Position(GROUP, {TRANSFORMED: self._committed})] if self._committed else []
        self._say(process, "ok", "offsets", known, begun)

    def _read_to_end(self, consumers: list[int]) -> None:
        for process in consumers:
            self._move(process)
            while any(self._positions[process][key] < len(self._logs[key]) for key in KEYS):
                begun = self._say(process, "invoke", "poll", [])
                self._say(
                    process, "ok", "poll", [self._read(self._positions[process], KEYS, 20, self._following[process])], begun
                )
