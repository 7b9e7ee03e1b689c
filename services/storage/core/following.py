"""What a follower does about a leader's answer for one partition (kafka-facts sections 10 and 11).

The answer is judged in this order: is it of the epoch that is followed → an error → where the logs part (KAFKA-14704: before
the leader's high watermark is believed) → its batches, and only then its high watermark and log start.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from libs.rpc.contracts.replication import Pulled
from libs.wire.errors import ErrorCode

NO_EPOCH = -1
OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)


class State(Enum):
    STOPPED = "stopped"
    FETCHING = "fetching"
    WAITING = "waiting"
    CUTTING = "cutting"
    OFFLINE = "offline"


class Event(Enum):
    FOLLOWED = "followed"  # the image names another leader
    PUT_OFF = "put off"  # the answer was an error, or did not fit
    DUE = "due"  # it is time to ask again
    PARTED = "parted"  # the log must be cut, or begun anew
    CUT = "cut"  # it was
    BROKEN = "broken"  # the disk, or what is on it
    LET_GO = "let go"  # this node leads now, or nobody does, or the partition left


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.STOPPED, Event.FOLLOWED): State.FETCHING,
    (State.FETCHING, Event.PUT_OFF): State.WAITING,
    (State.FETCHING, Event.PARTED): State.CUTTING,
    (State.FETCHING, Event.BROKEN): State.OFFLINE,
    (State.FETCHING, Event.LET_GO): State.STOPPED,
    (State.WAITING, Event.DUE): State.FETCHING,
    (State.WAITING, Event.BROKEN): State.OFFLINE,
    (State.WAITING, Event.LET_GO): State.STOPPED,
    (State.CUTTING, Event.CUT): State.FETCHING,
    (State.CUTTING, Event.PUT_OFF): State.WAITING,  # the disk does not take what must be on it first
    (State.CUTTING, Event.BROKEN): State.OFFLINE,
    (State.CUTTING, Event.LET_GO): State.STOPPED,  # and nobody touches the log until the cut has ended
    (State.OFFLINE, Event.LET_GO): State.STOPPED,
}
"""Of one partition that this node follows in one epoch."""


@dataclass(frozen=True, slots=True)
class Append:
    """The batches, as far as there are any; then the leader's high watermark and log start."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Ask again afterwards: the logs may part even earlier."""

    offset: int


@dataclass(frozen=True, slots=True)
class BeginAnew:
    """Nothing that is here helps: the log goes on, empty, at `base_offset`."""

    base_offset: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class Skip:
    """Compaction left nothing between the log's end and `offset`, which is too far away to append at once."""

    offset: int


@dataclass(frozen=True, slots=True)
class Retry:
    """After a while: the leader is not there yet, or its disk is not."""

    error: int


@dataclass(frozen=True, slots=True)
class Drop:
    """It speaks of another epoch than the one that is followed."""


Operation = Truncate | BeginAnew | Skip
"""What nobody else may touch the log for."""

Decision = Append | Operation | Retry | Drop


@dataclass(frozen=True, slots=True)
class Own:
    """This node's replica. `end_of_epoch`: (largest known epoch at most the one asked about, where it ends), (-1, -1) if there is
    none."""

    followed_epoch: int
    log_start: int
    log_end: int
    last_epoch: int
    """Of the last batch, -1 if there is none."""
    end_of_epoch: Callable[[int], tuple[int, int]]


def position(log_start: int, log_end: int) -> int:
    """From where a follower pulls. A log that was begun anew within a batch ends before it starts (KAFKA-6975)."""
    return max(log_start, log_end)


def decide(answer: Pulled, own: Own) -> Decision:
    if answer.error == OUT_OF_RANGE and answer.leader_epoch in (NO_EPOCH, own.followed_epoch):
        return _out_of_range(answer, own)
    if answer.error:
        return Retry(answer.error)
    if answer.leader_epoch != own.followed_epoch:
        return Drop()
    if answer.diverging_epoch != NO_EPOCH:
        return _parted(answer, own)
    return Append()


def _parted(answer: Pulled, own: Own) -> Decision:
    """KIP-101, KIP-279: back to where both logs know the same epoch, one epoch at a time, and never by the high watermark."""
    epoch, end_offset = answer.diverging_epoch, answer.diverging_end_offset
    own_epoch, own_end = own.end_of_epoch(epoch)
    if own_epoch == epoch:
        offset = min(end_offset, own_end, own.log_end)
    elif own_epoch != NO_EPOCH:
        offset = min(own_end, own.log_end)
    else:
        offset = min(end_offset, own.log_end)
    return _cut_at(offset, answer, own)


def _out_of_range(answer: Pulled, own: Own) -> Decision:
    if answer.log_end_offset < 0 or answer.log_start_offset < 0:
        return Retry(answer.error)
    asked = position(own.log_start, own.log_end)
    if answer.log_start_offset > asked:
        return BeginAnew(answer.log_start_offset, answer.log_start_offset)
    if answer.log_end_offset < asked:
        return _cut_at(answer.log_end_offset, answer, own)
    if own.last_epoch > own.followed_epoch:
        # Batches of an epoch that the leader never heard of: metadata were lost, or the election was unclean.
        return _cut_at(own.end_of_epoch(own.followed_epoch)[1], answer, own)
    return Retry(answer.error)


def _cut_at(offset: int, answer: Pulled, own: Own) -> Decision:
    if offset >= own.log_start:
        return Truncate(offset)
    # Kafka would go on at `offset`, and lack what the leader has before it. Nothing stays in any case, so copy all of it.
    start = max(answer.log_start_offset, 0)
    return BeginAnew(start, start)


def begins_within(base_offset: int, last_offset: int, own: Own, leaders_start: int = -1) -> BeginAnew | None:
    """What to do about a first batch that begins before the log's end. None: it does not fit at all.

    KAFKA-6975: DeleteRecords moved the leader's start into a batch, and that is where an empty follower began. Or a follower was
    cut there, since the leader has forgotten its epochs: all that it has lies before the leader's start.
    """
    at = position(own.log_start, own.log_end)
    if base_offset < at <= last_offset and (own.log_start >= own.log_end or at <= leaders_start):
        return BeginAnew(base_offset, at)
    return None
