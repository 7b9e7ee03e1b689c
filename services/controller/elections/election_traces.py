"""The traces of elections that the loss of a node brings about: detected, decided, written, led.

    election orders-0             from the first sign that the leader is gone until its successor is written
      detect                      until the failure detector, or the node's lease, was sure of it
      remove member               until the image shows that it is no member any more
      decide                      until this controller had decided
      write                       until the image shows the new leader
      lead orders-0               at the new leader, which derives the same ids (`services/storage/reconcile/lead_traces.py`)

Elections are few, so each has a trace, up to a bound: a node may have led thousands of partitions.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, PartitionState
from libs.lean_dataclass import dataclass
from libs.telemetry.tracing import conventions
from libs.telemetry.tracing.guard import GUARDED
from libs.telemetry.tracing.ids import election_context
from libs.telemetry.tracing.recorder import SpanRecorder
from libs.telemetry.tracing.sampling import Reason
from libs.telemetry.tracing.span import AttributeValue, SpanKind

V = TypeVar("V")

ELECTIONS_MAX: Final = 8
"""The partitions of one run of the reconciler whose elections have traces."""
NODES_MAX: Final = 64
"""The lost nodes whose times are known."""

DISCONNECTED_S: Final = 10.0
"""A connection that ended longer ago is no sign of a loss."""

Change = tuple[bytes, int, PartitionState]
"""A partition's new state."""


@dataclass(slots=True)
class Loss:
    """When a node was lost, in loop time."""

    incarnation: int
    first_sign_at: float
    """Its connection to this controller ended, or what came first of the others."""
    sure_at: float
    removed_at: float = 0.0
    """0.0: it is still a member."""


class ElectionTraces:
    """Those of one controller. `now` is the loop's time."""

    def __init__(self, recorder: SpanRecorder, now: Callable[[], float]) -> None:
        self.recorder = recorder
        self._now = now
        self._losses: dict[int, Loss] = {}
        """The last loss of each node, until its elections are traced."""
        self._disconnected_at: dict[int, float] = {}

    def disconnected(self, node_id: int) -> None:
        """A storage node's connection to this controller ended, which may mean nothing."""
        _keep(self._disconnected_at, node_id, self._now())

    def dead(self, node_id: int, incarnation: int) -> None:
        """The failure detector is sure that a storage node is dead."""
        self._lost(node_id, incarnation)

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Notes which members an image lacks. One that was not found dead has left, or lost its lease."""
        if old.members(STORAGE) is new.members(STORAGE):
            return
        now = self._now()
        for node_id, member in old.members(STORAGE).items():
            successor = new.members(STORAGE).get(node_id)
            if successor is not None and successor.incarnation == member.incarnation:
                continue
            self._lost(node_id, member.incarnation).removed_at = now

    def _lost(self, node_id: int, incarnation: int) -> Loss:
        known = self._losses.get(node_id)
        if known is not None and known.incarnation == incarnation:
            return known
        now = self._now()
        disconnected_at = self._disconnected_at.pop(node_id, now)
        loss = Loss(incarnation, disconnected_at if now - disconnected_at <= DISCONNECTED_S else now, now)
        _keep(self._losses, node_id, loss)
        return loss

    @GUARDED
    def elected(
        self, image: ClusterImage, changed: Sequence[Change], begun_at: float, decided_at: float, written_at: float
    ) -> None:
        """Makes the spans of elections that were written. `image` is the one that they were decided on."""
        traced, led_by = 0, set[int]()
        for topic_id, index, state in changed:
            before = image.partition(topic_id, index)
            if before is None or before.leader < 0 or state.leader < 0 or state.leader_epoch == before.leader_epoch:
                continue
            led_by.add(before.leader)
            if traced == ELECTIONS_MAX or not self.recorder.admits(written_at):
                break
            traced += 1
            loss = self._losses.get(before.leader)
            if loss is not None and loss.incarnation != before.leader_incarnation:
                loss = None  # of an earlier life: this election has another reason
            topic = image.topics_by_id[topic_id].name
            tree = self.recorder.tree(election_context(topic_id, index, state.leader_epoch), None)
            attributes: dict[str, AttributeValue] = {
                conventions.DESTINATION_NAME: topic,
                conventions.DESTINATION_PARTITION_ID: str(index),
                conventions.FORMER_LEADER_ID: before.leader,
                conventions.LEADER_ID: state.leader,
                conventions.LEADER_EPOCH: state.leader_epoch,
            }
            removed_at = loss.removed_at if loss is not None and loss.removed_at else begun_at
            start = loss.first_sign_at if loss is not None else begun_at
            if written_at - start > self.recorder.rules.fastest_slow_s:
                attributes[conventions.REASON] = Reason.SLOW
            tree.root(f"election {topic}-{index}", start, written_at, attributes, kind=SpanKind.INTERNAL)
            if loss is not None:
                tree.child("detect", loss.first_sign_at, loss.sure_at)
                tree.child("remove member", loss.sure_at, removed_at)
            tree.child("decide", removed_at, decided_at)
            tree.child("write", decided_at, written_at, kind=SpanKind.CLIENT)
            self.recorder.record(tree.spans)
        for node_id in led_by:
            self._losses.pop(node_id, None)


def _keep(times: dict[int, V], node_id: int, value: V) -> None:
    times.pop(node_id, None)
    if len(times) >= NODES_MAX:
        del times[next(iter(times))]
    times[node_id] = value
