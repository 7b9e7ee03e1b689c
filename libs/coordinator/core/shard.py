"""One shard at one owner: it decides, replays at once, appends in groups and answers when committed. No I/O.

The shell feeds it (`submit`, `claimed`, `loaded`, `appended` …) and drains it (`next_claim`, `next_append`, `take_answers`,
`next_deadline`). One rule governs the order: no answer, not even of a read, rests on state that is not committed.

An append is *refused* if the leader says that it is not in the log. The outcome of any other failure is unknown, so state goes
back to what is committed. The shard then claims again, so that the lost append cannot be stored later. It reads the log to learn
whether it was.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from libs.coordinator.core.decisions import Decision, Expired, KeyValue, Machine
from libs.coordinator.core.pending import RECORD_OVERHEAD, Answer, Marks, Pending
from libs.coordinator.core.states import TRANSITIONS, Event, State
from libs.coordinator.core.tables import Journal
from libs.coordinator.core.timers import Timers
from libs.coordinator.core.unwritable import TooLarge, Unwritable
from libs.coordinator.core.write_errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    HARMLESS,
    NOT_COORDINATOR,
    OF_ONE_PRODUCER,
    UNKNOWN_SERVER_ERROR,
    client_error,
)
from libs.lean_dataclass import dataclass
from libs.wire.record_batches.keyed_batches import TransactionalBatch

E = TypeVar("E")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

BATCH_BYTES_MAX = 1_000_000
UNCOMMITTED_BYTES_MAX = 16 << 20
WAITING_MAX = 100_000
UNWRITABLE_RETRY_MS = 10_000
"""How much later a timer fires again whose decision cannot be written. Only a new limit or a smaller state helps."""

_ERROR_WHILE = {
    State.CLAIMING: COORDINATOR_LOAD_IN_PROGRESS,
    State.LOADING: COORDINATOR_LOAD_IN_PROGRESS,
    State.UNLOADING: NOT_COORDINATOR,
    State.CLOSED: NOT_COORDINATOR,
}


@dataclass(frozen=True, slots=True)
class Fence:
    """The identity of a writer, which the partition's leader checks. `claim` rises with each claim in one owner epoch."""

    leader_epoch: int
    owner_epoch: int
    claim: int


class PlannedAppend(NamedTuple):
    """One batch, to be stored at `offset` and nowhere else. Without records, it only asks whether a batch could be stored."""

    fence: Fence
    offset: int
    records: Sequence[KeyValue]
    transaction: TransactionalBatch | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a loading has come."""

    start: int
    position: int
    end: int
    records: int
    """Records replayed so far. Of several records with one key in a read, only the last counts."""


class Shard(Generic[E, R, S, T]):
    """The state of one shard. `make` builds an empty machine with the journal for its tables."""

    def __init__(
        self, make: Callable[[Journal], Machine[E, R, S]], owner_epoch: int, *, batch_bytes_max: int = BATCH_BYTES_MAX
    ) -> None:
        self._make = make
        self.owner_epoch = owner_epoch
        self.batch_bytes_max = batch_bytes_max
        self.state = State.CLAIMING
        self.position = -1
        """All records before it are committed and replayed. -1 before the first read."""
        self._fence = Fence(-1, owner_epoch, 0)
        self._loading = Progress(-1, -1, -1, 0)
        self._pending: Pending[R, T] = Pending()
        self.unwritable: list[Unwritable] = []
        """Decisions that could not be written. The shell tells of them, and empties this."""
        self._empty()

    def _empty(self) -> None:
        self._journal = Journal()
        self.machine = self._make(self._journal)
        self._timers = Timers()

    @property
    def fence(self) -> Fence:
        """The fence of the newest claim."""
        return self._fence

    @property
    def pending(self) -> Pending[R, T]:
        """Decisions whose records are not committed, and parked requests. To be read only."""
        return self._pending

    @property
    def timers(self) -> Timers:
        """The timers of the machine. To be read only."""
        return self._timers

    @property
    def journal(self) -> Journal:
        """What tables have noted of changes that may be undone. To be read only."""
        return self._journal

    @property
    def progress(self) -> Progress:
        return self._loading

    @property
    def waiting(self) -> int:
        """Callers that wait: those whose decisions are not committed, and parked ones."""
        return self._pending.waiting + len(self._pending.parked)

    def take_answers(self) -> Sequence[Answer[R, T]]:
        """Answers that may be sent, in this order."""
        pending = self._pending
        if not pending.answers:
            return ()
        answers, pending.answers = pending.answers, []
        return answers

    # -- deciding -------------------------------------------------------------------------------------------------------

    def submit(self, event: E, now_ms: int, ticket: T) -> None:
        """Decides one request. Raises what the machine raises; nothing has changed then, and the caller's answer is
        UNKNOWN_SERVER_ERROR."""
        if self.state is not State.SERVING:
            self._pending.answers.append(Answer(ticket, _ERROR_WHILE[self.state]))
        elif self.waiting >= WAITING_MAX or self._pending.bytes >= UNCOMMITTED_BYTES_MAX:
            self._pending.answers.append(Answer(ticket, COORDINATOR_LOAD_IN_PROGRESS))  # clients retry it here
        else:
            self._decide(event, now_ms, ticket, Marks(self._journal.mark, self._timers.mark))

    def expire(self, now_ms: int) -> bool:
        """Decides about one due timer; False if none is due. Raises as `submit` does; the timer then fires again later."""
        if self.state is not State.SERVING:
            return False
        marks = Marks(self._journal.mark, self._timers.mark)
        key = self._timers.take_due(now_ms)
        if key is None:
            return False
        self._decide(Expired(key), now_ms, None, marks)
        return True

    def next_deadline(self) -> int | None:
        """Wall time in ms of the next timer."""
        return self._timers.next_deadline() if self.state is State.SERVING else None

    def _decide(self, event: E | Expired, now_ms: int, ticket: T | None, marks: Marks) -> None:
        try:
            decision = self.machine.decide(event, now_ms)
            written, size = self._replay(decision, has_ticket=ticket is not None)
        except Exception as reason:
            self._back_to(marks)
            # A ValueError: a record does not fit its format. Anything else is a fault, which no other decision may hide.
            replaced = isinstance(reason, TooLarge | ValueError) and self._decide_smaller(event, now_ms, ticket, marks)
            self.unwritable.append(Unwritable(event, reason, replaced))
            if not replaced:
                self._give_up(event, now_ms, ticket)
                if not isinstance(reason, TooLarge):
                    raise
        else:
            self._queue(decision, written, size, ticket, marks)

    def _replay(self, decision: Decision[R, S], *, has_ticket: bool) -> tuple[list[KeyValue], int]:
        """Replays a decision. Returns its records as the log holds them, and their size. Raises TooLarge, or what the machine
        raises; state has to go back then."""
        encode = self.machine.encode
        written = [kept for record in decision.records if (kept := encode(record)) is not None]
        size = 0
        for key, value in written:
            size += len(key) + len(value or b"") + RECORD_OVERHEAD
        self._pending.check(decision, has_ticket=has_ticket)
        if size + decision.room > self.batch_bytes_max:  # the log would refuse it, with all other decisions of its batch
            raise TooLarge(size + decision.room, self.batch_bytes_max)
        for record in decision.records:
            self.machine.replay(record)
        return written, size

    def _decide_smaller(self, event: E | Expired, now_ms: int, ticket: T | None, marks: Marks) -> bool:
        """Decides in another way about an event whose usual decision cannot be written. False if there is no other, or it cannot
        be written either: then nothing has changed."""
        try:
            decision = self.machine.decide_smaller(event, now_ms)
            replayed = self._replay(decision, has_ticket=ticket is not None) if decision is not None else None
        except Exception:  # `_decide` tells of the first reason
            self._back_to(marks)
            decision = replayed = None
        if decision is not None and replayed is not None:
            if isinstance(event, Expired):  # the timer, which `_back_to` has put back, would call for the usual decision again
                decision = decision._replace(timers={event.key: None, **decision.timers})
            self._queue(decision, *replayed, ticket, marks)
            return True
        return False

    def _give_up(self, event: E | Expired, now_ms: int, ticket: T | None) -> None:
        if ticket is not None:
            self._pending.answers.append(Answer(ticket, UNKNOWN_SERVER_ERROR))
        if isinstance(event, Expired):
            self._timers.set({event.key: now_ms + UNWRITABLE_RETRY_MS}, undoable=False)

    def _queue(self, decision: Decision[R, S], written: list[KeyValue], size: int, ticket: T | None, marks: Marks) -> None:
        pending = self._pending
        append = bool(written) or decision.current
        group = pending.group_for(size, marks, self.batch_bytes_max, append=append, transaction=decision.transaction)
        if group is not None and written:
            group.records += written
            group.bytes += size
            pending.bytes += size
        if decision.timers:
            self._timers.set(decision.timers, undoable=bool(decision.records))
        pending.take(group, decision, ticket)
        if group is None:
            self._forget_committed()

    # -- appending ------------------------------------------------------------------------------------------------------

    @property
    def wants_append(self) -> bool:
        """Whether there is something to append, and no append in flight."""
        pending = self._pending
        return not pending.sent and bool(pending.groups) and self.state is State.SERVING

    def next_append(self) -> PlannedAppend | None:
        """The next append, or None. It counts as sent from now on."""
        if not self.wants_append:
            return None
        self._pending.sent = True
        group = self._pending.groups[0]
        return PlannedAppend(self._fence, self.position, group.records, group.transaction if group.records else None)

    def appended(self) -> None:
        """The append of `next_append` is stored and committed."""
        if not self._pending.sent:
            return
        group = self._pending.commit()
        self.position += len(group.records)
        self._forget_committed()
        if self.state is State.UNLOADING:
            self._close(Event.DRAINED)

    def refused(self, error: int) -> None:
        """The append is not in the log. `error` is the leader's."""
        # What is wrong with one producer is not the fault of others that wait. Nothing of theirs was sent.
        self._revert(client_error(error), others_error=COORDINATOR_LOAD_IN_PROGRESS if error in OF_ONE_PRODUCER else None)
        if error == NOT_COORDINATOR:
            self._close(Event.FENCED)
        elif self.state is State.UNLOADING:
            self._close(Event.DRAINED)
        elif error not in HARMLESS:
            self.outcome_unknown()

    def outcome_unknown(self, error: int = COORDINATOR_NOT_AVAILABLE) -> None:
        """The leader moved, or the outcome of an append or claim is unknown."""
        if self.state is State.CLOSED:
            return
        self._revert(error)
        if self.state is State.UNLOADING:
            self._close(Event.OUTCOME_UNKNOWN)
        else:
            self._become(Event.OUTCOME_UNKNOWN)

    def _forget_committed(self) -> None:
        """Forgets how to revert what is committed: everything before the first group."""
        groups = self._pending.groups
        marks = groups[0].marks if groups else Marks(self._journal.mark, self._timers.mark)
        self._journal.forget_to(marks.journal)
        self._timers.forget_to(marks.timers)

    def _revert(self, error: int, first: int = 0, others_error: int | None = None) -> None:
        marks = self._pending.drop(first, error, others_error)
        if marks is not None:
            self._back_to(marks)

    def _back_to(self, marks: Marks) -> None:
        self._journal.revert_to(marks.journal)
        self._timers.revert_to(marks.timers)

    # -- claiming and loading -------------------------------------------------------------------------------------------

    def next_claim(self, leader_epoch: int) -> Fence:
        """A new fence, to be claimed from the leader in that epoch."""
        assert self.state is State.CLAIMING
        self._fence = Fence(leader_epoch, self.owner_epoch, self._fence.claim + 1)
        return self._fence

    def claimed(self, log_start: int, log_end: int) -> None:
        """The leader took the claim: no other owner's append is stored from now on, nor any that was sent before."""
        self._become(Event.CLAIMED)
        if not log_start <= self.position <= log_end:
            if self.position >= 0:  # the log lost committed records, so the tables are wrong too
                self._pending.refuse_parked(NOT_COORDINATOR)
            self._empty()
            self.position = log_start
        self._journal.recording = False
        self._loading = Progress(self.position, self.position, log_end, 0)

    def replay_committed(
        self, records: Iterable[tuple[bytes, bytes | None]], transaction: TransactionalBatch | None = None
    ) -> None:
        """Replays records in order, all of that transaction. Raises what `decode` raises."""
        decode, replay = self.machine.decode, self.machine.replay
        count = 0
        for key, value in records:
            record = decode(key, value, transaction)
            if record is not None:
                replay(record)
                count += 1
        before = self._loading
        self._loading = Progress(before.start, before.position, before.end, before.records + count)

    def loaded(self, position: int, now_ms: int) -> None:
        """All records before `position` are committed, and were given to `replay_committed`."""
        before = self._loading
        self.position = position
        self._loading = Progress(before.start, position, before.end, before.records)
        if position >= before.end:
            self._become(Event.CAUGHT_UP)
            self._journal.recording = True
            for key, deadline in self.machine.timers(
                now_ms
            ):  # nobody could send a heartbeat meanwhile: all have their whole time
                known = self._timers.deadline(key)
                if known is None or known < deadline:
                    self._timers.set({key: deadline}, undoable=False)

    def restart_unless_closed(self) -> None:
        """Reads everything anew, since replayed state may be wrong."""
        if self.state is State.CLOSED:
            return
        self.outcome_unknown()
        self._pending.refuse_parked(NOT_COORDINATOR)
        self._empty()
        self.position = -1

    # -- ends -----------------------------------------------------------------------------------------------------------

    def fenced(self) -> None:
        """The leader has seen a newer owner."""
        if self.state is not State.CLOSED:
            self._close(Event.FENCED)

    def unload(self) -> None:
        """Takes no new requests. An append in flight may still be answered."""
        if self.state is State.CLOSED:
            return
        if self.state is State.SERVING and self._pending.sent:
            self._become(Event.RESIGNED)
            self._revert(NOT_COORDINATOR, first=1)
        else:
            self._close(Event.RESIGNED)

    def _close(self, event: Event) -> None:
        self._revert(NOT_COORDINATOR)
        if self.state is State.SERVING and event is Event.RESIGNED:
            self._become(event)
            event = Event.DRAINED
        self._become(event)
        self._pending.refuse_parked(NOT_COORDINATOR)
        self._empty()

    def _become(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state, event]
