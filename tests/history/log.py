"""The log of each partition, rebuilt from everything that any client saw of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.history.calls import Call
from tests.history.model import History, Key, Offset, Value


@dataclass
class KeyLog:
    """`offsets`: those known to hold a record, in order. Control records use the others. An index is a place among them."""

    at: dict[Offset, dict[Value, None]] = field(default_factory=dict)
    offsets: list[Offset] = field(default_factory=list)
    index: dict[Offset, int] = field(default_factory=dict)
    indexes_of: dict[Value, list[int]] = field(default_factory=dict)
    read_up_to: int = -1
    """The largest index at which a value that somebody read is first: whatever lies before it was passed by a reader."""

    def put(self, offset: Offset, value: Value) -> None:
        self.at.setdefault(offset, {})[value] = None

    def settle(self, read: dict[Value, Call]) -> None:
        self.offsets = sorted(self.at)
        self.index = {offset: index for index, offset in enumerate(self.offsets)}
        for index, offset in enumerate(self.offsets):
            for value in self.at[offset]:
                self.indexes_of.setdefault(value, []).append(index)
        self.read_up_to = max((indexes[0] for value, indexes in self.indexes_of.items() if value in read), default=-1)


@dataclass
class Evidence:
    """A history, ready to be judged."""

    history: History
    calls: Sequence[Call]
    writer: dict[Value, Call] = field(default_factory=dict)
    key_of: dict[Value, Key] = field(default_factory=dict)
    """Where it was sent to."""
    read: dict[Value, Call] = field(default_factory=dict)
    """By an ok call: the first that did."""
    polled: set[Value] = field(default_factory=set)
    """By anybody, also in a call that failed."""
    readers: dict[Value, list[Call]] = field(default_factory=dict)
    logs: dict[Key, KeyLog] = field(default_factory=dict)

    def is_committed(self, call: Call) -> bool:
        """Whether a transaction is committed: it is ok, or its outcome is unknown and a client saw its records."""
        return call.type == "ok" or (call.type == "info" and any(send.value in self.read for send in call.sends))

    def committed_values(self, call: Call) -> set[Value]:
        """A transaction is one; sends of one call are answered one by one."""
        if call.f == "txn":
            return {send.value for send in call.sends} if self.is_committed(call) else set()
        if call.type == "fail":
            return set()
        return {send.value for send in call.sends if call.type == "ok" or send.offset is not None or send.value in self.read}

    def calls_of(self, process: int) -> list[Call]:
        return [call for call in self.calls if call.process == process]

    def log(self, key: Key) -> KeyLog:
        return self.logs.setdefault(key, KeyLog())


def gather(history: History, calls: Sequence[Call]) -> Evidence:
    evidence = Evidence(history, calls)
    for call in calls:
        for send in call.sends:
            evidence.writer[send.value] = call
            evidence.key_of[send.value] = send.key
        for key, offset, value in call.polls:
            evidence.log(key).put(offset, value)
            evidence.polled.add(value)
            if call.type == "ok":
                evidence.read.setdefault(value, call)
                evidence.readers.setdefault(value, []).append(call)
    for call in calls:
        committed = evidence.committed_values(call)
        for send in call.sends:
            if send.offset is not None and send.value in committed:
                evidence.log(send.key).put(send.offset, send.value)
    for log in evidence.logs.values():
        log.settle(evidence.read)
    return evidence
