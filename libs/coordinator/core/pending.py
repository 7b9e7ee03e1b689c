"""Decisions that are replayed and not committed yet, in groups that share an append, with the requests that wait for them."""

from collections import deque
from typing import Any, Generic, NamedTuple, TypeVar

from libs.coordinator.core.decisions import Decision, KeyValue, ParkKey
from libs.lean_dataclass import dataclass
from libs.wire.record_batches.keyed_batches import TransactionalBatch

R = TypeVar("R")
T = TypeVar("T")
"""Tickets: the shell's handles of requests."""

RECORD_OVERHEAD = 32
"""Bytes of a record beside its key and value, at most."""


COALESCED_BYTES_MAX = 256 << 10
"""Most bytes of the decisions that share an append. Building such a batch takes about ten milliseconds."""


class Answer(NamedTuple, Generic[R, T]):
    ticket: T
    error: int
    reply: R | None = None


class Marks(NamedTuple):
    """A point in the journal and the timers. Changes after it can be reverted."""

    journal: int
    timers: int


class Group(Generic[R, T]):
    """Decisions that share one append. Without records, the append only asks the leader whether this owner is still the owner."""

    __slots__ = ("bytes", "committed", "marks", "parked", "records", "replies", "transaction")

    def __init__(self, marks: Marks, transaction: TransactionalBatch | None) -> None:
        self.marks = marks
        """The point before its first decision."""
        self.transaction = transaction
        """The transaction of its records."""
        self.records: list[KeyValue] = []
        self.bytes = 0
        self.replies: list[Reply[R, T]] = []
        self.parked: list[tuple[ParkKey, Parked[R, T]]] = []
        self.committed = False

    def has_room(self, size: int, batch_bytes_max: int, transaction: TransactionalBatch | None) -> bool:
        """Whether records of that size and transaction may join its batch."""
        if not size or not self.records:
            return True
        if transaction != self.transaction or (transaction is not None and transaction.is_marker):
            return False
        return self.bytes + size <= min(COALESCED_BYTES_MAX, batch_bytes_max)


@dataclass(frozen=True, slots=True, eq=False)
class Parked(Generic[R, T]):
    """A caller that waits for a later decision."""

    ticket: T
    group: Group[R, T] | None
    """The group of the decision that parked it. None if nothing was uncommitted then."""
    writes: bool
    """Whether that decision has records."""

    @property
    def stays(self) -> bool:
        """Whether the decision that parked it is committed, so that a failed append does not end its wait."""
        return self.group is None or self.group.committed


class Reply(NamedTuple, Generic[R, T]):
    ticket: T
    reply: R
    writes: bool
    """Whether its decision has records."""
    woken: tuple[ParkKey, Parked[R, T]] | None = None


class Pending(Generic[R, T]):
    """Groups that are not committed yet. If `sent`, the first group's append is in flight. `answers` may be sent now."""

    def __init__(self) -> None:
        self.groups: deque[Group[R, T]] = deque()
        self.sent = False
        self.answers: list[Answer[R, T]] = []
        self.parked: dict[ParkKey, Parked[R, T]] = {}
        self.bytes = 0
        self.waiting = 0

    @property
    def first_bytes(self) -> int:
        """The bytes of the first group's records."""
        return self.groups[0].bytes if self.groups else 0

    def group_for(
        self,
        size: int,
        marks: Marks,
        batch_bytes_max: int,
        *,
        append: bool,
        transaction: TransactionalBatch | None = None,
    ) -> Group[R, T] | None:
        """The group of a new decision; None if nothing is uncommitted. A decision with records (`append`) needs a group that was
        not sent yet. Any other waits with the last group."""
        groups = self.groups
        if not append:
            return groups[-1] if groups else None
        open_from = 1 if self.sent else 0
        if len(groups) > open_from and groups[-1].has_room(size, batch_bytes_max, transaction):
            if size:
                groups[-1].transaction = transaction
            return groups[-1]
        group: Group[R, T] = Group(marks, transaction)
        groups.append(group)
        return group

    def check(self, decision: Decision[R, Any], *, has_ticket: bool) -> None:
        """Checks a decision before it takes effect. Raises ValueError for one that leaves its caller without an answer."""
        key = decision.parks_as
        if key is not None and key in self.parked and all(woken != key for woken, _ in decision.wakes):
            raise ValueError(f"a caller is parked as {key!r} already: the decision has to wake it first")
        if has_ticket and key is None and decision.reply is None:
            raise ValueError("a decision has to answer its caller, or park it")

    def take(self, group: Group[R, T] | None, decision: Decision[R, Any], ticket: T | None) -> None:
        """Answers or parks the caller, and wakes parked ones. Those are woken first, since the caller may park under the same
        key."""
        writes = bool(decision.records)
        for key, reply in decision.wakes:
            parked = self.parked.pop(key, None)
            if parked is not None:
                self._reply(group, Reply(parked.ticket, reply, writes, (key, parked)))
        if ticket is None:
            return
        if decision.parks_as is not None:
            parked = self.parked[decision.parks_as] = Parked(ticket, group, writes)
            if group is not None:
                group.parked.append((decision.parks_as, parked))
        else:
            assert decision.reply is not None
            self._reply(group, Reply(ticket, decision.reply, writes))

    def commit(self) -> Group[R, T]:
        """The first group, now committed. Its replies may be sent."""
        group = self.groups.popleft()
        self.sent = False
        group.committed = True
        self.bytes -= group.bytes
        self.waiting -= len(group.replies)
        self.answers += [Answer(reply.ticket, 0, reply.reply) for reply in group.replies]
        return group

    def drop(self, first: int, error: int, others_error: int | None = None) -> Marks | None:
        """Reverts the groups from `first` on: their callers hear `error`, and parked callers that they had woken wait again.
        `others_error`: what those hear who have no records in the first of these groups. Returns the point to which state has to
        go back."""
        gone = list(self.groups)[first:]
        if not gone:
            return None
        if first == 0:
            self.sent = False
        for _ in gone:
            self.groups.pop()
        if others_error is None:
            others_error = error
        for group in gone:
            self.bytes -= group.bytes
            self.waiting -= len(group.replies)
            for key, parked in group.parked:
                if self.parked.get(key) is parked:
                    del self.parked[key]
                    self.answers.append(Answer(parked.ticket, error if group is gone[0] and parked.writes else others_error))
        for group in gone:
            for reply in group.replies:
                if reply.woken is not None and reply.woken[1].stays:
                    self.parked[reply.woken[0]] = reply.woken[1]
                else:
                    self.answers.append(Answer(reply.ticket, error if group is gone[0] and reply.writes else others_error))
        return gone[0].marks

    def refuse_parked(self, error: int) -> None:
        """Answers all parked callers with `error`."""
        self.answers += [Answer(parked.ticket, error) for parked in self.parked.values()]
        self.parked.clear()

    def _reply(self, group: Group[R, T] | None, reply: Reply[R, T]) -> None:
        if group is None:
            self.answers.append(Answer(reply.ticket, 0, reply.reply))
        else:
            group.replies.append(reply)
            self.waiting += 1
