"""What the partitions of a log directory owe the disk, and when rounds of syncs pay it: two tables, and the code that obeys them.

An append lies in the page cache, and only a *round* of syncs makes it survive a power cut. A round costs about the same for one
partition and for many. So a directory has one round in flight, and what is appended meanwhile waits for the next one.

A partition *owes* a round from the fact that makes its log differ from the disk until a round that began after that fact has
ended well. A node that stops drops what is owed, and the next start finds it in the log. A partition may owe for several reasons
at once. So it is in several states at once, each of which is a reason, and `CLEAN` means that there is none. A fact moves a
partition along each row of `PARTITION_TRANSITIONS` whose state it is in. Rows of `CLEAN` always apply: they add a reason to
whatever there is.

A round looks at all that is dirty when it begins, in the order in which it became so, and at the first of those that were
requested. It takes a partition whole: every other reason ends, and what is appended from then on is owed anew. After a good end
two reasons may come up that concern no record: indexes wait for the next resume point, and small files for room on the disk. A
log that cannot tell what it owes holds up no other. It is left out, and waits for its next try.

`ROUND_TRANSITIONS` has the directory's side. Rounds that nobody waits for keep a distance, and an urgent one begins at once. A
round that hangs stops appends until it returns. Rule: a failed sync is never tried again, because the kernel may have dropped the
pages and marked them clean. So the directory retires for good: no round begins there any more, and its last one makes nothing
durable. A round that lacked descriptors has failed no sync. All that it held is dirty again.

Nothing here does I/O or knows a clock. The caller names facts, reads states, begins rounds and arms timers
(`services/storage/partition/sync_scheduler.py`).
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from itertools import islice
from typing import Any, Final, Generic, TypeVar

P = TypeVar("P")

PACE_S = 0.01
"""The distance between rounds that nobody waits for."""
RETRY_S = 0.5
"""The wait after a round that had too few descriptors, and before another try of a log at fault."""
NO_ROOM_S = 2.0
"""The wait after a round that found no room for what it leaves beside the logs."""
REQUESTED_PER_ROUND = 256
"""Small files take a tenth of a millisecond each. Thousands of new epochs must not hold up the appends that share their round."""


class State(StrEnum):
    """A reason for which a partition owes a round. The members are strings, which hash faster than other enums."""

    CLEAN = "clean"
    DIRTY = "dirty"
    """The next round takes it."""
    UNHURRIED = "unhurried"
    """Appended to, while its topic lets syncs wait: for `flush.ms`, or `flush.messages`."""
    REQUESTED = "requested"
    """A round soon takes it, whatever the topic says: it has a new epoch, or a crash left something in memory only."""
    IN_ROUND = "in a round"
    AWAITING_RESUME_POINT = "awaiting a resume point"
    """Its appends are durable. Its indexes keep files open until a resume point, or until files are scarce."""
    UNWRITTEN = "unwritten"
    """All is durable, but there was no room for the files beside the log."""
    LEFT_OUT = "left out"
    """Its log could not tell what it owes. Rounds go on without it, and it is tried again."""


class Fact(StrEnum):
    """What happens to a partition."""

    APPENDED = "appended to"
    APPENDED_UNHURRIED = "appended to, and syncs may wait"
    OVERDUE = "flush.ms is over"
    FILES_SCARCE = "files are scarce"
    REQUESTED = "a round is requested"
    ADMITTED = "among the first requests"
    LOOKED_AT = "a round looks at it"
    TAKEN = "the round takes it"
    SETTLED = "its log owes nothing"
    POSTPONED = "no descriptor to look at it"
    FAULTY = "its log fails to tell"
    SYNCED = "the round ends well"
    INTERRUPTED = "the round lacks descriptors"
    DROPPED = "the round is dropped"
    INDEXES_WAIT = "indexes are not synced"
    NO_ROOM = "no room for its files"
    LEFT = "it leaves"
    """So do all partitions of a directory that fails."""


PARTITION_TRANSITIONS: Final[Mapping[tuple[State, Fact], State]] = {
    (State.CLEAN, Fact.APPENDED): State.DIRTY,
    (State.CLEAN, Fact.APPENDED_UNHURRIED): State.UNHURRIED,
    (State.CLEAN, Fact.REQUESTED): State.REQUESTED,
    (State.CLEAN, Fact.INDEXES_WAIT): State.AWAITING_RESUME_POINT,
    (State.CLEAN, Fact.NO_ROOM): State.UNWRITTEN,
    (State.UNHURRIED, Fact.OVERDUE): State.DIRTY,
    (State.UNHURRIED, Fact.FILES_SCARCE): State.DIRTY,
    (State.AWAITING_RESUME_POINT, Fact.FILES_SCARCE): State.DIRTY,
    (State.REQUESTED, Fact.ADMITTED): State.DIRTY,
    (State.UNHURRIED, Fact.LOOKED_AT): State.CLEAN,
    (State.REQUESTED, Fact.LOOKED_AT): State.CLEAN,
    (State.AWAITING_RESUME_POINT, Fact.LOOKED_AT): State.CLEAN,
    (State.UNWRITTEN, Fact.LOOKED_AT): State.CLEAN,
    (State.DIRTY, Fact.TAKEN): State.IN_ROUND,
    (State.DIRTY, Fact.SETTLED): State.CLEAN,
    (State.DIRTY, Fact.POSTPONED): State.DIRTY,
    (State.DIRTY, Fact.FAULTY): State.LEFT_OUT,
    (State.LEFT_OUT, Fact.TAKEN): State.CLEAN,
    (State.LEFT_OUT, Fact.SETTLED): State.CLEAN,
    (State.IN_ROUND, Fact.SYNCED): State.CLEAN,
    (State.IN_ROUND, Fact.INTERRUPTED): State.DIRTY,
    (State.IN_ROUND, Fact.DROPPED): State.CLEAN,
    **{(state, Fact.LEFT): State.CLEAN for state in State if state is not State.CLEAN},
}


class Round(StrEnum):
    """The rounds of a directory."""

    IDLE = "idle"
    PAUSED = "paused"
    """Nobody waits for the next round, which begins when its distance to the former is kept."""
    RUNNING = "running"
    HANGING = "hanging"
    LAST = "last round"
    """The directory is retired, and a round has not ended yet."""
    LAST_HANGING = "last round hanging"
    RETIRED = "retired"


class RoundFact(StrEnum):
    TOO_EARLY = "too early"
    PAUSE_OVER = "the pause is over, or somebody waits"
    BEGUN = "a round begins"
    HUNG = "it hangs"
    ENDED = "it ends"
    FAILED = "a sync or write failed"


ROUND_TRANSITIONS: Final[Mapping[tuple[Round, RoundFact], Round]] = {
    (Round.IDLE, RoundFact.BEGUN): Round.RUNNING,
    (Round.IDLE, RoundFact.TOO_EARLY): Round.PAUSED,
    (Round.PAUSED, RoundFact.PAUSE_OVER): Round.IDLE,
    (Round.RUNNING, RoundFact.ENDED): Round.IDLE,
    (Round.RUNNING, RoundFact.HUNG): Round.HANGING,
    (Round.HANGING, RoundFact.ENDED): Round.IDLE,
    (Round.IDLE, RoundFact.FAILED): Round.RETIRED,
    (Round.PAUSED, RoundFact.FAILED): Round.RETIRED,
    (Round.RETIRED, RoundFact.PAUSE_OVER): Round.RETIRED,
    (Round.RUNNING, RoundFact.FAILED): Round.LAST,
    (Round.HANGING, RoundFact.FAILED): Round.LAST_HANGING,
    (Round.LAST, RoundFact.HUNG): Round.LAST_HANGING,
    (Round.LAST, RoundFact.ENDED): Round.RETIRED,
    (Round.LAST_HANGING, RoundFact.ENDED): Round.RETIRED,
}
"""A fact that has no row here is a bug of ours, and raises KeyError."""

# Each round passes these. A name of the module is found ten times as fast as a member of an enum.
_IDLE, _PAUSED, _BEGUN, _ENDED = Round.IDLE, Round.PAUSED, RoundFact.BEGUN, RoundFact.ENDED
_UNDER_WAY: Final = (Round.RUNNING, Round.HANGING, Round.LAST, Round.LAST_HANGING)
_RETIRED: Final = (Round.LAST, Round.LAST_HANGING, Round.RETIRED)


class SyncStates(Generic[P]):
    """The states of one log directory and of its partitions. Each dict holds the partitions in one state, the longest first."""

    __slots__ = (
        "_ended_by_a_look",
        "_moves",
        "awaiting_resume_point",
        "dirty",
        "has_room",
        "in_round",
        "left_out",
        "paced_until",
        "requested",
        "round",
        "unhurried",
        "unwritten",
        "urgent",
    )

    def __init__(self) -> None:
        self.dirty: dict[P, None] = {}
        self.unhurried: dict[P, float] = {}
        """With the time of the first append that waits."""
        self.requested: dict[P, None] = {}
        self.in_round: dict[P, None] = {}
        self.awaiting_resume_point: dict[P, None] = {}
        self.unwritten: dict[P, None] = {}
        self.left_out: dict[P, None] = {}
        self.round = Round.IDLE
        self.urgent = False
        """Somebody waits for the next round."""
        self.paced_until = 0.0
        """When a round that nobody waits for may begin."""
        self.has_room = True
        """Whether the latest round with files to write beside logs found room for them."""
        held = self.held()
        self._moves: dict[Fact, list[tuple[dict[P, Any] | None, dict[P, Any] | None]]] = {fact: [] for fact in Fact}
        for (before, fact), after in PARTITION_TRANSITIONS.items():
            if before is not after:
                self._moves[fact].append((held.get(before), held.get(after)))
        self._ended_by_a_look = [before for before, _ in self._moves[Fact.LOOKED_AT] if before is not None]

    def held(self) -> dict[State, dict[P, Any]]:
        """The partitions in each state but `CLEAN`."""
        return {
            State.DIRTY: self.dirty,
            State.UNHURRIED: self.unhurried,
            State.REQUESTED: self.requested,
            State.IN_ROUND: self.in_round,
            State.AWAITING_RESUME_POINT: self.awaiting_resume_point,
            State.UNWRITTEN: self.unwritten,
            State.LEFT_OUT: self.left_out,
        }

    def happened(self, partition: P, fact: Fact) -> None:
        """Moves a partition along the rows of a fact. For facts that name a time or many partitions there are methods."""
        for before, after in self._moves[fact]:
            if before is None:
                assert after is not None
                after[partition] = None
            elif before and partition in before:
                del before[partition]
                if after is not None:
                    after[partition] = None

    # -- what is owed -------------------------------------------------------------------------------------------------------

    def appended(self, partition: P) -> None:
        self.dirty[partition] = None

    def appended_unhurried(self, partition: P, now: float) -> None:
        self.unhurried.setdefault(partition, now)

    def request(self, partition: P) -> None:
        self.requested[partition] = None
        self.urgent = True

    def files_became_scarce(self) -> None:
        """Makes the next round cover all whose files only a round can close."""
        for partition in (*self.awaiting_resume_point, *self.unhurried):
            self.happened(partition, Fact.FILES_SCARCE)

    def flush(self, is_overdue: Callable[[P, float], bool]) -> None:
        """`is_overdue` is given a partition and the time since when it waits."""
        for partition, since in list(self.unhurried.items()):
            if is_overdue(partition, since):
                self.happened(partition, Fact.OVERDUE)

    def request_left_out(self) -> None:
        for partition in self.left_out:
            self.request(partition)

    def request_unwritten(self) -> None:
        """Requests a round for some of those that were not written: they take long."""
        for partition in list(islice(self.unwritten, REQUESTED_PER_ROUND)):
            self.request(partition)

    def forget(self, partition: P) -> None:
        """Drops a partition that leaves the directory, from a running round too."""
        self.happened(partition, Fact.LEFT)

    # -- the rounds ---------------------------------------------------------------------------------------------------------

    @property
    def under_way(self) -> bool:
        return self.round in _UNDER_WAY

    @property
    def retired(self) -> bool:
        return self.round in _RETIRED

    def may_begin(self) -> bool:
        """Whether a round can begin and has something to look at."""
        return (self.round is _IDLE or self.round is _PAUSED) and bool(self.dirty or self.requested)

    def pause(self) -> bool:
        """Notes that it is too early for a round. True: the pause begins, and ends at `paced_until`."""
        if self.round is _PAUSED:
            return False
        self._round_is(RoundFact.TOO_EARLY)
        return True

    def pause_over(self) -> None:
        self._round_is(RoundFact.PAUSE_OVER)

    def retry_later(self, now: float) -> None:
        """Makes the next round wait until descriptors may be free."""
        self.paced_until = now + RETRY_S
        self.urgent = False

    def to_look_at(self) -> list[P]:
        """The partitions that a round which begins now looks at. They are `DIRTY`, and no less than that: each is then `TAKEN`,
        `SETTLED`, `POSTPONED`, `FAULTY` or `LEFT`."""
        if self.requested:
            for partition in list(islice(self.requested, REQUESTED_PER_ROUND)):
                self.happened(partition, Fact.ADMITTED)
        looked_at = list(self.dirty)
        for before in self._ended_by_a_look:
            if before:  # most often nobody is in these states
                for partition in looked_at:
                    before.pop(partition, None)
        return looked_at

    def take(self, partition: P) -> None:
        """`TAKEN`, spelled out, since each partition of each round passes here."""
        del self.dirty[partition]
        self.in_round[partition] = None
        if self.left_out:
            self.left_out.pop(partition, None)

    def begin(self) -> None:
        self._round_is(_BEGUN)
        assert self.in_round

    def hang(self) -> None:
        self._round_is(RoundFact.HUNG)

    def end(self) -> bool:
        """The round has returned. True: it counts, and is then `synced`, `interrupted` or `dropped`, or the directory retires."""
        self._round_is(_ENDED)
        return self.round is _IDLE

    def synced(self, indexes_wait: Iterable[P]) -> None:
        """All in the round are durable. `indexes_wait`: those of them whose indexes are not."""
        self.in_round.clear()
        for partition in indexes_wait:
            self.happened(partition, Fact.INDEXES_WAIT)

    def reported(self, now: float) -> None:
        """The good end of a round is reported, and the distance to the next one begins. One that was requested does not wait."""
        self.paced_until = now + PACE_S
        if self.requested:
            self.urgent = True

    def interrupted(self, now: float) -> None:
        """No sync failed, but the round did not end: a directory could not be opened."""
        for partition in list(self.in_round):
            self.happened(partition, Fact.INTERRUPTED)
        self.retry_later(now)

    def dropped(self) -> None:
        """What the round did counts for nothing: the directory is retired, or the node stops."""
        self.in_round.clear()

    def found_no_room(self, partitions: Iterable[P]) -> bool:
        """The round could not write the small files of these partitions. True: it is the first to find no room."""
        for partition in partitions:
            self.happened(partition, Fact.NO_ROOM)
        first, self.has_room = self.has_room, False
        return first

    def found_room(self) -> None:
        self.has_room = True

    def retire(self) -> bool:
        """The directory has failed. False: it had before."""
        if self.retired:
            return False
        self._round_is(RoundFact.FAILED)
        for partitions in self.held().values():
            partitions.clear()
        return True

    def _round_is(self, fact: RoundFact) -> None:
        self.round = ROUND_TRANSITIONS[self.round, fact]

    # -- invariants ---------------------------------------------------------------------------------------------------------

    def states_of(self, partition: P) -> set[State]:
        """The states of a partition. Empty: it is clean."""
        return {state for state, partitions in self.held().items() if partition in partitions}

    def owes_sync(self, partition: P) -> bool:
        """Whether something may be in its log that is not durable. Rule: no log whose end is not durable owes nothing."""
        return (
            partition in self.dirty
            or partition in self.in_round
            or partition in self.unhurried
            or partition in self.requested
            or partition in self.left_out
        )

    def broken_invariant(self) -> str:
        """The first invariant that does not hold. Empty: all hold."""
        if self.in_round and self.round not in (Round.RUNNING, Round.HANGING):
            return f"partitions are in a round, and the rounds are {self.round}"
        return ""
