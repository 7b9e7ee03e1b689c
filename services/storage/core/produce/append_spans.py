"""The spans of one append at its leader, from its stage times."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from libs.lean_dataclass import dataclass
from libs.telemetry.tracing.conventions import (
    ACKS,
    BOUND,
    DESTINATION_NAME,
    DESTINATION_PARTITION_ID,
    FOLLOWER_ID,
    IN_SYNC,
    KAFKA,
    KAFKA_OFFSET,
    LEADER_EPOCH,
    MESSAGING_SYSTEM,
    NODE_ID,
    REACHED,
    REASON,
    WAITED_FOR,
)
from libs.telemetry.tracing.sampling import Reason
from libs.telemetry.tracing.span import Attributes
from libs.telemetry.tracing.span_tree import SpanTree
from services.storage.core.produce.progress_trail import Reached

WriteTimes = tuple[float, float, float]
"""The times of one write, which appends of one turn share: when their checks began, when the write began, when it ended. Seconds
of the loop. A plain tuple, since each write makes one."""


class Wait(NamedTuple):
    """The wait of a batch that was not staged when it came."""

    reason: str
    span_id: int | None = None
    """That of its span, if another process was told of it."""


@dataclass(frozen=True, slots=True)
class AnsweredAppend:
    """What is known of an append when it is answered."""

    topic: str
    partition: int
    node_id: int
    leader_epoch: int
    acks: int
    base_offset: int
    """-1: it was refused."""
    received_at: float
    write: WriteTimes | None
    """None: it was refused before."""
    answered_at: float
    synced: bool
    """Whether only what is on disks counts."""
    followers: Sequence[int] = ()
    """The other replicas. Empty: it waited for none."""
    in_sync: Sequence[int] = ()
    reached: Mapping[int, Reached] | None = None
    """When replicas reached its end, the leader with its disk among them."""
    error: str | None = None
    reason: Reason | None = None
    """What stands out of it."""
    wait: Wait | None = None
    """None: it was staged when it came, or nobody told why it was not."""


def add_spans(append: AnsweredAppend, tree: SpanTree) -> None:
    """Adds the root and its steps."""
    attributes: dict[str, str | int | float | bool] = {
        MESSAGING_SYSTEM: KAFKA,
        DESTINATION_NAME: append.topic,
        DESTINATION_PARTITION_ID: str(append.partition),
        NODE_ID: append.node_id,
        LEADER_EPOCH: append.leader_epoch,
        ACKS: append.acks,
    }
    if append.base_offset >= 0:
        attributes[KAFKA_OFFSET] = append.base_offset
    if append.reason is not None:
        attributes[REASON] = append.reason
    tree.root(f"append {append.topic}", append.received_at, append.answered_at, attributes, error=append.error)
    if append.write is None:
        if append.wait is not None:
            _add_wait(append, append.answered_at, tree)
        return
    staged_at, began_at, written_at = append.write
    if staged_at > append.received_at:
        _add_wait(append, staged_at, tree)
    tree.child("check", staged_at, began_at)
    tree.child("write", began_at, written_at)
    if append.acks == -1 and (append.followers or append.synced):
        _add_replication(append, written_at, tree)


def _add_wait(append: AnsweredAppend, until: float, tree: SpanTree) -> None:
    reason, span_id = append.wait or ("", None)
    tree.child("wait", append.received_at, until, {WAITED_FOR: reason} if reason else None, span_id=span_id)


def _add_replication(append: AnsweredAppend, since: float, tree: SpanTree) -> None:
    end, reached = append.answered_at, append.reached or {}
    if append.synced:
        tree.child("sync", since, *_end_of(reached.get(append.node_id), since, end))
    if append.followers:
        waited = tree.child("replication wait", since, end)
        for node_id in append.followers:
            at, attributes = _end_of(reached.get(node_id), since, end)
            attributes = {FOLLOWER_ID: node_id, IN_SYNC: node_id in append.in_sync, **attributes}
            tree.child(f"follower {node_id}", since, at, attributes, parent_id=waited)


def _end_of(reached: Reached | None, since: float, answered_at: float) -> tuple[float, Attributes]:
    """The end of a replica's step. One that has not reached the append's end has had no other by the time of the answer."""
    if reached is None:
        return answered_at, {REACHED: False}
    return max(since, reached.at), {} if reached.exact else {BOUND: True}
