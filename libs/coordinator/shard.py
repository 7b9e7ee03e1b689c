"""One shard at one owner: decides, replays at once, appends in groups, answers when committed (DESIGN section 8). No I/O.

The shell feeds it (`submit`, `claimed`, `loaded`, `appended` …) and drains it (`next_claim`, `next_append`, `take_answers`,
`next_deadline`). Everything here holds one order: what is answered, reads included, was decided on nothing that is not committed.

*Refused* is an append of which the leader says that it is not in the log. Of any other that failed nobody knows: then state
goes back to what is committed. The shard claims again, so that this append cannot be stored later either, and reads what became
of it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from libs.runtime.shards.decisions import Decision, Expired, KeyValue, Machine
from libs.runtime.shards.pending import RECORD_OVERHEAD, Answer, Marks, Pending
from libs.runtime.shards.states import TRANSITIONS, Fact, State
from libs.runtime.shards.tables import Journal
from libs.runtime.shards.timers import Timers
from libs.runtime.shards.write_errors import HARMLESS, LOADING, NOT_COORDINATOR, UNAVAILABLE, UNKNOWN, told_to_clients

E = TypeVar("E")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

BATCH_BYTES_MAX = 1_000_000
UNCOMMITTED_BYTES_MAX = 16 << 20
WAITING_MAX = 100_000

_ERROR_WHILE = {
    State.CLAIMING: LOADING,
    State.LOADING: LOADING,
    State.UNLOADING: NOT_COORDINATOR,
    State.CLOSED: NOT_COORDINATOR,
}


@dataclass(frozen=True, slots=True)
class Fence:
    """Who writes, as the partition's leader must have it. `claim` rises with each claim of one owner epoch."""

    leader_epoch: int
    owner_epoch: int
    claim: int


class PlannedAppend(NamedTuple):
    """One batch, to stand at `offset` and nowhere else. Without records: only a question whether it could."""

    fence: Fence
    offset: int
    records: Sequence[KeyValue]


@dataclass(frozen=True, slots=True)
class Progress:
    """Of a loading."""

    start: int
    position: int
    end: int
    records: int
    """Replayed so far: those of which a later one with the same key was read along with them are not."""


class Shard(Generic[E, R, S, T]):
    """`make` builds the machine anew, empty, with the journal for its tables."""

    def __init__(
        self, make: Callable[[Journal], Machine[E, R, S]], owner_epoch: int, *, batch_bytes_max: int = BATCH_BYTES_MAX
    ) -> None:
        self._make = make
        self.owner_epoch = owner_epoch
        self.batch_bytes_max = batch_bytes_max
        self.state = State.CLAIMING
        self.position = -1
        """All before it is committed and replayed. -1: nothing was read yet."""
        self._fence = Fence(-1, owner_epoch, 0)
        self._loading = Progress(-1, -1, -1, 0)
        self._pending: Pending[R, T] = Pending()
        self._empty()

    def _empty(self) -> None:
        self._journal = Journal()
        self.machine = self._make(self._journal)
        self._timers = Timers()

    @property
    def fence(self) -> Fence:
        """The newest claim."""
        return self._fence

    @property
    def progress(self) -> Progress:
        return self._loading

    @property
    def waiting(self) -> int:
        """Askers whose decisions are not committed, and those who are parked."""
        return self._pending.waiting + len(self._pending.parked)

    def take_answers(self) -> Sequence[Answer[R, T]]:
        """In the order in which they may be sent."""
        pending = self._pending
        if not pending.answers:
            return ()
        answers, pending.answers = pending.answers, []
        return answers

    # -- deciding -------------------------------------------------------------------------------------------------------

    def submit(self, event: E, now_ms: int, ticket: T) -> None:
        """Raises what the machine raises, with nothing changed and the asker answered -1."""
        if self.state is not State.SERVING:
            self._pending.answers.append(Answer(ticket, _ERROR_WHILE[self.state]))
        elif self.waiting >= WAITING_MAX or self._pending.bytes >= UNCOMMITTED_BYTES_MAX:
            self._pending.answers.append(Answer(ticket, LOADING))  # which makes a client come again, and here
        else:
            self._decide(event, now_ms, ticket, Marks(self._journal.mark, self._timers.mark))

    def expire(self, now_ms: int) -> bool:
        """Decides about one timer that is due. False: none is. Raises as `submit` does; the timer comes again."""
        if self.state is not State.SERVING:
            return False
        marks = Marks(self._journal.mark, self._timers.mark)
        key = self._timers.take_due(now_ms)
        if key is None:
            return False
        self._decide(Expired(key), now_ms, None, marks)
        return True

    def next_deadline(self) -> int | None:
        """Wall time in ms at which `expire` has something to do."""
        return self._timers.next_deadline() if self.state is State.SERVING else None

    def _decide(self, event: E | Expired, now_ms: int, ticket: T | None, marks: Marks) -> None:
        try:
            decision = self.machine.decide(event, now_ms)
            encode = self.machine.encode
            written = [kept for record in decision.records if (kept := encode(record)) is not None]
            size = 0
            for key, value in written:
                size += len(key) + len(value or b"") + RECORD_OVERHEAD
            self._pending.check(decision, asked=ticket is not None)
            if size <= self.batch_bytes_max:
                for record in decision.records:
                    self.machine.replay(record)
        except Exception:
            self._back_to(marks)
            if ticket is not None:
                self._pending.answers.append(Answer(ticket, UNKNOWN))
            raise
        if size > self.batch_bytes_max:  # alone it could be refused only by the log, and would take others along
            self._back_to(marks)
            if ticket is not None:
                self._pending.answers.append(Answer(ticket, UNKNOWN))
            return
        self._queue(decision, written, size, ticket, marks)

    def _queue(self, decision: Decision[R, S], written: list[KeyValue], size: int, ticket: T | None, marks: Marks) -> None:
        pending = self._pending
        append = bool(written) or decision.current
        group = pending.group_for(size, marks, append=append)
        if group is not None and written:
            group.records += written
            group.bytes += size
            pending.bytes += size
        if decision.timers:
            self._timers.set(decision.timers, undoable=bool(decision.records))
        pending.take(group, decision, ticket)
        if group is None:
            self._settled()

    # -- appending ------------------------------------------------------------------------------------------------------

    @property
    def wants_append(self) -> bool:
        """False while one is under way."""
        pending = self._pending
        return not pending.sent and bool(pending.groups) and self.state is State.SERVING

    def next_append(self) -> PlannedAppend | None:
        """What is to be appended now."""
        if not self.wants_append:
            return None
        self._pending.sent = True
        return PlannedAppend(self._fence, self.position, self._pending.groups[0].records)

    def appended(self) -> None:
        """What `next_append` returned stands in the log, and is committed."""
        if not self._pending.sent:
            return
        group = self._pending.commit()
        self.position += len(group.records)
        self._settled()
        if self.state is State.UNLOADING:
            self._close(Fact.SETTLED)

    def refused(self, error: int) -> None:
        """It does not stand in the log. `error` is the leader's."""
        self._revert(told_to_clients(error))
        if error == NOT_COORDINATOR:
            self._close(Fact.FENCED)
        elif self.state is State.UNLOADING:
            self._close(Fact.SETTLED)
        elif error not in HARMLESS:
            self.unsure()

    def unsure(self, error: int = UNAVAILABLE) -> None:
        """The leader moved, or nobody knows what became of an append, or of a claim."""
        if self.state is State.CLOSED:
            return
        self._revert(error)
        if self.state is State.UNLOADING:
            self._close(Fact.UNSURE)
        else:
            self._become(Fact.UNSURE)

    def _settled(self) -> None:
        """What comes before the first group that waits is committed."""
        groups = self._pending.groups
        marks = groups[0].marks if groups else Marks(self._journal.mark, self._timers.mark)
        self._journal.forget_to(marks.journal)
        self._timers.forget_to(marks.timers)

    def _revert(self, error: int, first: int = 0) -> None:
        marks = self._pending.drop(first, error)
        if marks is not None:
            self._back_to(marks)

    def _back_to(self, marks: Marks) -> None:
        self._journal.revert_to(marks.journal)
        self._timers.revert_to(marks.timers)

    # -- claiming and loading -------------------------------------------------------------------------------------------

    def next_claim(self, leader_epoch: int) -> Fence:
        """To be asked of the leader in that epoch. Each is a new one."""
        assert self.state is State.CLAIMING
        self._fence = Fence(leader_epoch, self.owner_epoch, self._fence.claim + 1)
        return self._fence

    def claimed(self, log_start: int, log_end: int) -> None:
        """From here on nobody else writes, nor anything that was sent before."""
        self._become(Fact.CLAIMED)
        if not log_start <= self.position <= log_end:
            if self.position >= 0:  # the log lost what was committed; its tables cannot stay either
                self._pending.dismiss(NOT_COORDINATOR)
            self._empty()
            self.position = log_start
        self._journal.recording = False
        self._loading = Progress(self.position, self.position, log_end, 0)

    def replay_committed(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """In their order. Raises what `decode` raises."""
        decode, replay = self.machine.decode, self.machine.replay
        count = 0
        for key, value in records:
            record = decode(key, value)
            if record is not None:
                replay(record)
                count += 1
        before = self._loading
        self._loading = Progress(before.start, before.position, before.end, before.records + count)

    def loaded(self, position: int, now_ms: int) -> None:
        """All before `position` is committed, and was given to `replay_committed`."""
        before = self._loading
        self.position = position
        self._loading = Progress(before.start, position, before.end, before.records)
        if position >= before.end:
            self._become(Fact.CAUGHT_UP)
            self._journal.recording = True
            for key, deadline in self.machine.timers(now_ms):  # nobody was heard meanwhile: all have their whole time
                known = self._timers.deadline(key)
                if known is None or known < deadline:
                    self._timers.set({key: deadline}, undoable=False)

    def start_again_unless_closed(self) -> None:
        """What was replayed is not to be trusted: reads everything anew."""
        if self.state is State.CLOSED:
            return
        self.unsure()
        self._pending.dismiss(NOT_COORDINATOR)
        self._empty()
        self.position = -1

    # -- ends -----------------------------------------------------------------------------------------------------------

    def fenced(self) -> None:
        """A newer owner was seen."""
        if self.state is not State.CLOSED:
            self._close(Fact.FENCED)

    def dismiss(self) -> None:
        """Nothing new is taken; an append under way may still be answered."""
        if self.state is State.CLOSED:
            return
        if self.state is State.SERVING and self._pending.sent:
            self._become(Fact.DISMISSED)
            self._revert(NOT_COORDINATOR, first=1)
        else:
            self._close(Fact.DISMISSED)

    def _close(self, fact: Fact) -> None:
        self._revert(NOT_COORDINATOR)
        if self.state is State.SERVING and fact is Fact.DISMISSED:
            self._become(fact)
            fact = Fact.SETTLED
        self._become(fact)
        self._pending.dismiss(NOT_COORDINATOR)
        self._empty()

    def _become(self, fact: Fact) -> None:
        self.state = TRANSITIONS[self.state, fact]
