"""Decisions that are replayed and not committed yet, in groups that share an append, and the askers who wait."""

from collections import deque
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from libs.runtime.shards.decisions import Decision, KeyValue, ParkKey

R = TypeVar("R")
T = TypeVar("T")
"""Tickets: whatever the shell answers by."""

RECORD_OVERHEAD = 32
"""Bytes that a record takes beside its key and value, at most."""


COALESCED_BYTES_MAX = 256 << 10
"""Several decisions share an append up to this. Building its batch takes about ten milliseconds."""


class Answer(NamedTuple, Generic[R, T]):
    ticket: T
    error: int
    reply: R | None = None


class Marks(NamedTuple):
    """A moment: what was noted later can be taken back."""

    journal: int
    timers: int


class Group(Generic[R, T]):
    """What one append decides about. Without records it only asks the leader whether the owner is still the owner."""

    __slots__ = ("bytes", "committed", "marks", "parked", "records", "replies")

    def __init__(self, marks: Marks) -> None:
        self.marks = marks
        """Before its first decision."""
        self.records: list[KeyValue] = []
        self.bytes = 0
        self.replies: list[Reply[R, T]] = []
        self.parked: list[tuple[ParkKey, Parked[R, T]]] = []
        self.committed = False


@dataclass(frozen=True, slots=True, eq=False)
class Parked(Generic[R, T]):
    """An asker who waits for a later decision."""

    ticket: T
    group: Group[R, T] | None
    """That of the decision which parked it; None: nothing was uncommitted then."""

    @property
    def stays(self) -> bool:
        """Whatever fails now: the decision to let it wait is committed."""
        return self.group is None or self.group.committed


class Reply(NamedTuple, Generic[R, T]):
    ticket: T
    reply: R
    woken: tuple[ParkKey, Parked[R, T]] | None = None


class Pending(Generic[R, T]):
    """The first group is the one under way, if `sent`. `answers` is what may be said now."""

    def __init__(self) -> None:
        self.groups: deque[Group[R, T]] = deque()
        self.sent = False
        self.answers: list[Answer[R, T]] = []
        self.parked: dict[ParkKey, Parked[R, T]] = {}
        self.bytes = 0
        self.waiting = 0

    def group_for(self, size: int, marks: Marks, *, append: bool) -> Group[R, T] | None:
        """Where a decision goes: `append` needs a group that was not sent yet; otherwise it waits with what is before it.
        None: nothing is uncommitted."""
        groups = self.groups
        if not append:
            return groups[-1] if groups else None
        open_from = 1 if self.sent else 0
        if len(groups) > open_from and groups[-1].bytes + size <= COALESCED_BYTES_MAX:
            return groups[-1]
        group: Group[R, T] = Group(marks)
        groups.append(group)
        return group

    def check(self, decision: Decision[R, Any], *, asked: bool) -> None:
        """Before anything of it is done. Raises ValueError for a decision that no asker could make sense of."""
        key = decision.parks_as
        if key is not None and key in self.parked and all(woken != key for woken, _ in decision.wakes):
            raise ValueError(f"somebody waits as {key!r} already: a decision wakes whom it replaces")
        if asked and key is None and decision.reply is None:
            raise ValueError("who asks is answered, or parked")

    def take(self, group: Group[R, T] | None, decision: Decision[R, Any], ticket: T | None) -> None:
        """The asker of `decision`, and those that it wakes. Woken first: the asker may wait under the same key."""
        for key, reply in decision.wakes:
            parked = self.parked.pop(key, None)
            if parked is not None:
                self._reply(group, Reply(parked.ticket, reply, (key, parked)))
        if ticket is None:
            return
        if decision.parks_as is not None:
            parked = self.parked[decision.parks_as] = Parked(ticket, group)
            if group is not None:
                group.parked.append((decision.parks_as, parked))
        else:
            assert decision.reply is not None
            self._reply(group, Reply(ticket, decision.reply))

    def commit(self) -> Group[R, T]:
        """The first group: its replies may go."""
        group = self.groups.popleft()
        self.sent = False
        group.committed = True
        self.bytes -= group.bytes
        self.waiting -= len(group.replies)
        self.answers += [Answer(reply.ticket, 0, reply.reply) for reply in group.replies]
        return group

    def drop(self, first: int, error: int) -> Marks | None:
        """All groups from that one on: their askers hear of the error, and whoever they had woken waits again. Returns where
        state has to go back to."""
        gone = list(self.groups)[first:]
        if not gone:
            return None
        if first == 0:
            self.sent = False
        for _ in gone:
            self.groups.pop()
        for group in gone:
            self.bytes -= group.bytes
            self.waiting -= len(group.replies)
            for key, parked in group.parked:
                if self.parked.get(key) is parked:
                    del self.parked[key]
                    self.answers.append(Answer(parked.ticket, error))
        for group in gone:
            for reply in group.replies:
                if reply.woken is not None and reply.woken[1].stays:
                    self.parked[reply.woken[0]] = reply.woken[1]
                else:
                    self.answers.append(Answer(reply.ticket, error))
        return gone[0].marks

    def dismiss(self, error: int) -> None:
        """Everybody who is still parked."""
        self.answers += [Answer(parked.ticket, error) for parked in self.parked.values()]
        self.parked.clear()

    def _reply(self, group: Group[R, T] | None, reply: Reply[R, T]) -> None:
        if group is None:
            self.answers.append(Answer(reply.ticket, 0, reply.reply))
        else:
            group.replies.append(reply)
            self.waiting += 1
