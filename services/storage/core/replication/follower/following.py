"""A follower's decision on a leader's answer for one partition.

The answer is judged in this order: is it of the epoch that is followed → an error → where the logs part (KAFKA-14704: before
the leader's high watermark is believed) → its batches, and only then its high watermark and log start.
"""

from collections.abc import Callable
from enum import Enum

from libs.lean_dataclass import dataclass
from libs.rpc.contracts.replication import Pulled
from libs.wire.errors import ErrorCode

NO_EPOCH = -1
OFFSET_OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)


class State(Enum):
    STOPPED = "stopped"
    FETCHING = "fetching"
    BACKING_OFF = "backing off"
    TRUNCATING = "truncating"
    OFFLINE = "offline"


class Event(Enum):
    BECAME_FOLLOWER = "became follower"  # the image names another leader
    BACKED_OFF = "backed off"  # the answer was an error, or did not fit
    BACKOFF_ENDED = "backoff ended"  # the partition may be pulled again
    DIVERGED = "diverged"  # the log must be truncated, or begin again elsewhere
    TRUNCATED = "truncated"
    FAILED = "failed"  # the disk failed, or what is on it is damaged
    REVOKED = "revoked"  # this node leads now, or nobody does, or the partition was deleted


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.STOPPED, Event.BECAME_FOLLOWER): State.FETCHING,
    (State.FETCHING, Event.BACKED_OFF): State.BACKING_OFF,
    (State.FETCHING, Event.DIVERGED): State.TRUNCATING,
    (State.FETCHING, Event.FAILED): State.OFFLINE,
    (State.FETCHING, Event.REVOKED): State.STOPPED,
    (State.BACKING_OFF, Event.BACKOFF_ENDED): State.FETCHING,
    (State.BACKING_OFF, Event.FAILED): State.OFFLINE,
    (State.BACKING_OFF, Event.REVOKED): State.STOPPED,
    (State.TRUNCATING, Event.TRUNCATED): State.FETCHING,
    (State.TRUNCATING, Event.BACKED_OFF): State.BACKING_OFF,  # the disk does not take the checkpoint that must come first
    (State.TRUNCATING, Event.FAILED): State.OFFLINE,
    (State.TRUNCATING, Event.REVOKED): State.STOPPED,  # the truncation still ends before anybody else touches the log
    (State.OFFLINE, Event.REVOKED): State.STOPPED,
}
"""The states of one partition that this node follows in one leader epoch."""


@dataclass(frozen=True, slots=True)
class Append:
    """The ordinary decision: append the batches, if there are any, then take the leader's high watermark and log start."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """A cut at `offset`. The partition is pulled again afterwards: the logs may diverge even earlier."""

    offset: int


@dataclass(frozen=True, slots=True)
class TruncateFully:
    """A drop of the whole log, which is of no use. It goes on, empty, at `base_offset`."""

    base_offset: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class Skip:
    """A gap up to `offset`, left by compaction, that is too large for an ordinary append."""

    offset: int


@dataclass(frozen=True, slots=True)
class Retry:
    """A pull after a while: the leader, or its disk, is not ready."""

    error: int


@dataclass(frozen=True, slots=True)
class Drop:
    """An answer of another leader epoch than the followed one. It is ignored."""


Operation = Truncate | TruncateFully | Skip
"""An operation that needs the log for itself."""

Decision = Append | Operation | Retry | Drop


@dataclass(frozen=True, slots=True)
class LocalLog:
    """This node's replica. `end_of_epoch` gives the largest known epoch up to the requested one, and where it ends, or (-1,
    -1)."""

    followed_epoch: int
    log_start: int
    log_end: int
    last_epoch: int
    """The epoch of the last batch, -1 if there is none."""
    end_of_epoch: Callable[[int], tuple[int, int]]


def position(log_start: int, log_end: int) -> int:
    """The offset from which a follower pulls.

    A log that begins within a batch, after a full truncation, ends before it starts (KAFKA-6975).
    """
    return max(log_start, log_end)


def decide(answer: Pulled, local: LocalLog) -> Decision:
    if answer.error == OFFSET_OUT_OF_RANGE and answer.leader_epoch in (NO_EPOCH, local.followed_epoch):
        return _out_of_range(answer, local)
    if answer.error:
        return Retry(answer.error)
    if answer.leader_epoch != local.followed_epoch:
        return Drop()
    if answer.diverging_epoch != NO_EPOCH:
        return _diverged(answer, local)
    return Append()


def _diverged(answer: Pulled, local: LocalLog) -> Decision:
    """The cut after a divergence (KIP-101, KIP-279).

    It goes back to where both logs know the same epoch, one epoch at a time, and never by the high watermark.
    """
    epoch, end_offset = answer.diverging_epoch, answer.diverging_end_offset
    own_epoch, own_end = local.end_of_epoch(epoch)
    if own_epoch == epoch:
        offset = min(end_offset, own_end, local.log_end)
    elif own_epoch != NO_EPOCH:
        offset = min(own_end, local.log_end)
    else:
        offset = min(end_offset, local.log_end)
    return _truncate_at(offset, answer, local)


def _out_of_range(answer: Pulled, local: LocalLog) -> Decision:
    if answer.log_end_offset < 0 or answer.log_start_offset < 0:
        return Retry(answer.error)
    fetch_offset = position(local.log_start, local.log_end)
    if answer.log_start_offset > fetch_offset:
        return TruncateFully(answer.log_start_offset, answer.log_start_offset)
    if answer.log_end_offset < fetch_offset:
        return _truncate_at(answer.log_end_offset, answer, local)
    if local.last_epoch > local.followed_epoch:
        # The leader never heard of the epoch of these batches: metadata was lost, or the election was unclean.
        return _truncate_at(local.end_of_epoch(local.followed_epoch)[1], answer, local)
    return Retry(answer.error)


def _truncate_at(offset: int, answer: Pulled, local: LocalLog) -> Decision:
    if offset >= local.log_start:
        return Truncate(offset)
    # Kafka would go on at `offset`, and lack the leader's records before it. Nothing stays in any case, so all is copied again.
    start = max(answer.log_start_offset, 0)
    return TruncateFully(start, start)


def begins_within(base_offset: int, last_offset: int, local: LocalLog, leaders_start: int = -1) -> TruncateFully | None:
    """The decision on a first batch that begins before the log's end. None: the batch does not fit at all.

    KAFKA-6975: DeleteRecords moved the leader's start into a batch, where an empty follower began. Or a follower was truncated
    there, since the leader has forgotten its epochs: all its records lie before the leader's start.
    """
    at = position(local.log_start, local.log_end)
    if base_offset < at <= last_offset and (local.log_start >= local.log_end or at <= leaders_start):
        return TruncateFully(base_offset, at)
    return None
