"""A plan's steps as new states of partitions, and moves of ours that cannot end any more, taken back."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace

from libs.cluster.image import ClusterImage
from libs.cluster.records import PartitionState
from libs.rpc.contracts.controller import AlterReassignments, Reassignment
from services.controller.core.balancing import Key, Step
from services.controller.core.elections import NO_LEADER, led_by, preferred
from services.controller.core.reassignment import is_reassigning, target_of
from services.controller.core.reassignment_requests import Changed, alter_reassignments
from services.controller.core.standing import LiveNode

OfTopic = Callable[[bytes], bool]


def carried_out(image: ClusterImage, steps: Sequence[Step], live: Mapping[int, LiveNode], synced: OfTopic) -> Changed:
    """As if an operator had asked for it, but that copies are paced, and leaderships that are to move do so at once."""
    wanted = tuple(Reassignment(image.topics_by_id[step.key[0]].name, step.key[1], step.after) for step in steps)
    asked = AlterReassignments(wanted, allow_replication_factor_change=False)
    altered = {(t, i): state for t, i, state in alter_reassignments(image, asked, live, synced, _never).changed}
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


def taken_back(image: ClusterImage, unfit: Set[int], live: Mapping[int, LiveNode], synced: OfTopic) -> Changed:
    """Moves of ours to nodes that are gone or are to be empty: they would wait for ever, or for nothing."""
    hopeless = (key for key, state in moving(image).items() if not unfit.isdisjoint(state.adding))
    wanted = tuple(Reassignment(image.topics_by_id[topic_id].name, index, None) for topic_id, index in hopeless)
    return alter_reassignments(image, AlterReassignments(wanted, False), live, synced, _never).changed


def re_aimed(image: ClusterImage, gone: Set[int], fit: Set[int], live: Mapping[int, LiveNode], synced: OfTopic) -> Changed:
    """Moves of ours whose target keeps a replica on a node that is gone: it is never in sync again, so they would never end.

    In its place comes one that was to go, if that is in sync: nothing that was copied is lost, and nothing more is copied.
    Else one of `fit` takes it; else the move is taken back, unless that takes away what is in sync by now.
    """
    hopeless = {key: (state, lost) for key, state in moving(image).items() if (lost := _lost(state, gone))}
    held = Counter(node_id for _, _, state in image.states() for node_id in target_of(state))
    wanted = []
    for (topic_id, index), (state, lost) in hopeless.items():
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
        wanted.append(Reassignment(image.topics_by_id[topic_id].name, index, target))
    altered = alter_reassignments(image, AlterReassignments(tuple(wanted), False), live, synced, _never).changed
    return [(topic_id, index, replace(state, paced=bool(state.adding))) for topic_id, index, state in altered]


def _lost(state: PartitionState, gone: Set[int]) -> list[int]:
    """Of those that stay. Who is the last in sync is waited for: what was copied from it may be all that is left."""
    isr = {member.node_id for member in state.isr}
    return [n for n in target_of(state) if n in gone and n not in isr and n not in state.adding]


def moving(image: ClusterImage) -> dict[Key, PartitionState]:
    """Partitions that the cluster itself is moving."""
    return {(topic_id, index): state for topic_id, index, state in image.states() if state.paced}


def reassigning(image: ClusterImage) -> int:
    """How many partitions are being moved, by us or by operators. Without a leader nothing is copied."""
    return sum(1 for _, _, state in image.states() if is_reassigning(state) and state.leader != NO_LEADER)


def within(steps: Iterable[Step], room: int) -> list[Step]:
    """Those that copy nothing, and of the others the first `room`."""
    found = []
    for step in steps:
        if not step.copies:
            found.append(step)
        elif room > 0:
            found.append(step)
            room -= 1
    return found


def holders(image: ClusterImage) -> set[int]:
    """Nodes that have replicas."""
    return {replica.node_id for _, _, state in image.states() for replica in state.replicas}


def replicas_on(image: ClusterImage, nodes: Set[int]) -> int:
    if not nodes:
        return 0
    return sum(replica.node_id in nodes for _, _, state in image.states() for replica in state.replicas)


def _never(_: bytes) -> bool:
    return False
