"""Nodes that are to be empty: who they are, and whether the others can take what they have."""

from collections.abc import Iterable
from typing import Final

from libs.cluster.configs.resolve import effective_broker_bool
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE
from services.controller.core.reassignment import target_of

DECOMMISSION: Final = "decommission"


def leaving(image: ClusterImage) -> frozenset[int]:
    """Nodes that are being decommissioned, or have been."""
    named = (name for (kind, name), values in image.overrides_by_resource.items() if kind == "broker" and DECOMMISSION in values)
    return frozenset(
        int(name) for name in named if name.isdigit() and effective_broker_bool(image, DECOMMISSION, broker_id=int(name))
    )


def too_few_without(image: ClusterImage, going: Iterable[int]) -> str | None:
    """In words why the other nodes cannot take what these hold; None if they can."""
    going = frozenset(going)
    others = image.members(STORAGE).keys() - going
    for topic_id, index, state in image.states():
        if len(target_of(state)) > len(others) and not going.isdisjoint(target_of(state)):
            return (
                f"{image.topics_by_id[topic_id].name}-{index} has {len(target_of(state))} replica(s), and only {len(others)} "
                "broker(s) are alive that are not being decommissioned."
            )
    return None
