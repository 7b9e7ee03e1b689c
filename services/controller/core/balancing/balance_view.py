"""The view of balancing for operators: planned moves, moves in progress, and nodes that are being emptied."""

from collections.abc import Iterable, Mapping, Sequence

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE, PartitionState
from services.controller.core.balancing.balance_plan import Key, Step, in_sync_but_for
from services.controller.core.reassignment.reassignment import is_reassigning, target_of

NAMED = 10
"""How many partitions are named. The others are counted."""


def planned(image: ClusterImage, steps: Iterable[Step]) -> list[dict[str, object]]:
    return [
        {
            "partition": name_of(image, step.key),
            **(_copy(step) if step.copies else _leadership(image, step)),
            "copies": step.copies,
            "why": step.goal.value,
        }
        for step in steps
    ]


def _copy(step: Step) -> dict[str, object]:
    return {"replicas": list(step.before), "to": list(step.after)}


def _leadership(image: ClusterImage, step: Step) -> dict[str, object]:
    state = image.partition(*step.key)
    return {"leader": state.leader if state is not None else None, "to": step.after[0], "replicas": list(step.after)}


def under_way(image: ClusterImage, moving: Mapping[Key, PartitionState]) -> list[dict[str, object]]:
    return [
        {
            "partition": name_of(image, key),
            "to": list(target_of(state)),
            "adding": list(state.adding),
            "removing": list(state.removing),
            "waits_for": waits_for(image, state),
        }
        for key, state in moving.items()
    ]


def waits_for(image: ClusterImage, state: PartitionState) -> list[int]:
    """Nodes that are away and hold up a move."""
    isr, here = {member.node_id for member in state.isr}, image.members(STORAGE)
    return [n for n in target_of(state) if n not in isr and n not in here]


def emptying(image: ClusterImage, node_id: int, stuck: Sequence[Key]) -> dict[str, object]:
    """The progress of a node that is to be emptied.

    `waiting` partitions have another reassignment, or replicas that are not in sync, or a move that needs an absent node.
    """
    theirs = {
        (topic_id, index): state
        for topic_id, index, state in image.states()
        if any(replica.node_id == node_id for replica in state.replicas)
    }
    held_up = {key for key, state in theirs.items() if state.paced and waits_for(image, state)}
    moving = sum(1 for key, state in theirs.items() if state.paced and node_id in state.removing and key not in held_up)
    waiting = [
        key
        for key, state in theirs.items()
        if key in held_up or (not in_sync_but_for(state, frozenset((node_id,))) and not (is_reassigning(state) and state.paced))
    ]
    nowhere = [key for key in stuck if key in theirs]
    leaderships = sum(1 for state in theirs.values() if state.leader == node_id)
    state = "empty" if not theirs else "moving"
    if nowhere and not moving:
        state = "stuck: too few other nodes for some partitions"
    elif held_up and not moving:
        state = "stuck: some moves wait for a node that is away"
    return {
        "state": state,
        "replicas": len(theirs),
        "leaderships": leaderships,
        "moving": moving,
        "waiting": _some(image, waiting),
        "stuck": _some(image, nowhere),
    }


def name_of(image: ClusterImage, key: Key) -> str:
    topic = image.topics_by_id.get(key[0])
    return f"{topic.name if topic is not None else key[0].hex()}-{key[1]}"


def _some(image: ClusterImage, keys: Sequence[Key]) -> dict[str, object]:
    return {"partitions": len(keys), "some": [name_of(image, key) for key in keys[:NAMED]]}
