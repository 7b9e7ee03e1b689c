"""Decommissioning: the nodes to be emptied, and whether the other nodes can take their replicas."""

from collections.abc import Iterable
from typing import Final

from libs.cluster.configs.resolve import effective_broker_bool
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE
from services.controller.core.reassignment.reassignment import target_of

DECOMMISSION: Final = "decommission"


def leaving(image: ClusterImage) -> frozenset[int]:
    """Nodes that are being decommissioned, or have been."""
    named = (name for (kind, name), values in image.overrides_by_resource.items() if kind == "broker" and DECOMMISSION in values)
    return frozenset(
        int(name) for name in named if name.isdigit() and effective_broker_bool(image, DECOMMISSION, broker_id=int(name))
    )


def too_few_without(image: ClusterImage, decommissioning: Iterable[int]) -> str | None:
    """The reason, in words, why the other nodes cannot take these nodes' replicas; None if they can."""
    decommissioning = frozenset(decommissioning)
    others = image.members(STORAGE).keys() - decommissioning
    for topic_id, index, state in image.states():
        if len(target_of(state)) > len(others) and not decommissioning.isdisjoint(target_of(state)):
            return (
                f"{image.topics_by_id[topic_id].name}-{index} has {len(target_of(state))} replica(s), and only {len(others)} "
                "broker(s) are alive that are not being decommissioned."
            )
    return None
