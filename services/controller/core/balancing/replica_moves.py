"""The steps of a balance plan as new partition states, and the cancellation of moves that can no longer end."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace

from libs.cluster.image import ClusterImage
from libs.cluster.records import PartitionState
from libs.rpc.contracts.controller import AlterReassignments, Reassignment
from services.controller.core.administration.alter_reassignments import Changed, alter_reassignments
from services.controller.core.balancing.balance_plan import Key, Step
from services.controller.core.elections.leader_election import NO_LEADER, led_by, preferred
from services.controller.core.model.replica_health import LiveNode
from services.controller.core.reassignment.reassignment import is_reassigning, target_of

OfTopic = Callable[[bytes], bool]


def step_changes(image: ClusterImage, steps: Sequence[Step], live: Mapping[int, LiveNode], synced: OfTopic) -> Changed:
    """The partition states after `steps`, as if an operator had requested them. But copies are paced, and leaderships that are to
    move do so at once."""
    reassignments = tuple(Reassignment(image.topics_by_id[step.key[0]].name, step.key[1], step.after) for step in steps)
    request = AlterReassignments(reassignments, allow_replication_factor_change=False)
    altered = {(t, i): state for t, i, state in alter_reassignments(image, request, live, synced, _never).changed}
    changed: Changed = []
    for step in steps:
        before = image.partition(*step.key)
        assert before is not None
        after = altered.get(step.key, before)
        if after.adding:
            after = replace(after, paced=True)
        leader = preferred(after, live) if step.leads and after.leader_epoch == before.leader_epoch else None
        if leader is not None:
            after = led_by(after, leader)
        if after != before:
            changed.append((*step.key, replace(after, partition_epoch=before.partition_epoch + 1)))
    return changed


def cancelled_moves(image: ClusterImage, unfit: Set[int], live: Mapping[int, LiveNode], synced: OfTopic) -> Changed:
    """The partition states without moves to nodes that are gone or to be emptied. These would never end, or be in vain."""
    stalled = (key for key, state in moving(image).items() if not unfit.isdisjoint(state.adding))
    reassignments = tuple(Reassignment(image.topics_by_id[topic_id].name, index, None) for topic_id, index in stalled)
    return alter_reassignments(image, AlterReassignments(reassignments, False), live, synced, _never).changed


def retargeted_moves(
    image: ClusterImage, gone: Set[int], fit: Set[int], live: Mapping[int, LiveNode], synced: OfTopic
) -> Changed:
    """The partition states with new targets for moves that keep a replica on a gone node. It never gets in sync, so they would
    never end.

    A replica that was to be removed takes its place if it is in sync: then no copy is lost, and nothing more is copied. Otherwise
    one of `fit` takes it. Otherwise the move is cancelled, unless that removes a replica that is in sync by now.
    """
    stalled = {key: (state, lost) for key, state in moving(image).items() if (lost := _lost(state, gone))}
    held = Counter(node_id for _, _, state in image.states() for node_id in target_of(state))
    reassignments = []
    for (topic_id, index), (state, lost) in stalled.items():
        there, isr = {replica.node_id for replica in state.replicas}, {member.node_id for member in state.isr}
        spare = [n for n in state.removing if n in isr and n not in gone]
        spare += sorted(fit - there, key=lambda n: (held[n], n))
        target: tuple[int, ...] | None = None
        if len(spare) >= len(lost):
            instead = dict(zip(lost, spare, strict=False))
            held.update(instead.values())
            target = tuple(instead.get(n, n) for n in target_of(state))
        elif not isr.isdisjoint(state.adding):
            continue
        reassignments.append(Reassignment(image.topics_by_id[topic_id].name, index, target))
    altered = alter_reassignments(image, AlterReassignments(tuple(reassignments), False), live, synced, _never).changed
    return [(topic_id, index, replace(state, paced=bool(state.adding))) for topic_id, index, state in altered]


def _lost(state: PartitionState, gone: Set[int]) -> list[int]:
    """Replicas of the target on gone nodes. The last in-sync replica is waited for: it may have records that no copy has."""
    isr = {member.node_id for member in state.isr}
    return [n for n in target_of(state) if n in gone and n not in isr and n not in state.adding]


def moving(image: ClusterImage) -> dict[Key, PartitionState]:
    """Partitions that self-balancing is moving."""
    return {(topic_id, index): state for topic_id, index, state in image.states() if state.paced}


def reassigning(image: ClusterImage) -> int:
    """The number of partitions that are being moved, by self-balancing or by operators. Partitions without a leader copy nothing
    and do not count."""
    return sum(1 for _, _, state in image.states() if is_reassigning(state) and state.leader != NO_LEADER)


def limit_copies(steps: Iterable[Step], room: int) -> list[Step]:
    """The steps that copy nothing, and the first `room` of the others. Those that have to begin together do, or wait."""
    limited = []
    begun = 0
    """The number of further steps that begin together with the last one."""
    waiting = 0
    """The number of further steps that wait together with the last one."""
    for step in steps:
        if not step.copies:
            limited.append(step)
        elif waiting:
            waiting -= 1
        elif begun or room >= step.together:
            limited.append(step)
            room -= 1
            begun = step.together - 1
        else:
            waiting = step.together - 1
    return limited


def holders(image: ClusterImage) -> set[int]:
    """Nodes that hold replicas."""
    return {replica.node_id for _, _, state in image.states() for replica in state.replicas}


def _never(_: bytes) -> bool:
    return False
