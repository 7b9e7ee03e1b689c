"""Levels of the cluster: its own feature level, and Kafka's features (KIP-584). What the software supports, what is finalized.
No I/O.

The feature level is Penstock's own. It rises when disk files, metadata records or RPCs change so that the version before cannot
read them. A process does not start in a cluster with a level that it does not support: it would misread what others wrote.

`group.version` 1 stands for the consumer group protocol (KIP-848), and `transaction.version` 2 for transactions with an epoch of
their own (KIP-890, part 2). Kafka's other features stand for what Penstock lacks, or for KRaft.

Clients decide by the finalized levels of these. Nothing in Penstock does: each request is served as its version asks.
"""

from collections.abc import Iterator
from typing import Final

from libs.cluster.image import ClusterImage
from libs.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature, the levels that the software supports, and the one that is finalized in a cluster without a record of it."""

    name: str
    min_level: int
    max_level: int
    default_level: int


FEATURE_LEVEL: Final = 1
"""The highest feature level that this software supports. New clusters begin at it."""

FEATURES: Final = (Feature("group.version", 1, 1, 1), Feature("transaction.version", 0, 2, 2))


def finalized_levels(image: ClusterImage) -> Iterator[tuple[Feature, int]]:
    """Each feature with its finalized level. Level 0 means that the feature is not finalized."""
    for feature in FEATURES:
        yield feature, image.finalized_features.get(feature.name, feature.default_level)


def unsupported_levels(image: ClusterImage) -> Iterator[str]:
    """What this software does not support of the cluster's levels, in words. Empty: it may run there."""
    if image.feature_level > FEATURE_LEVEL:
        yield f"feature level {image.feature_level} (supported: up to {FEATURE_LEVEL})"
    supported = {feature.name: feature for feature in FEATURES}
    for name, level in sorted(image.finalized_features.items()):
        feature = supported.get(name)
        if feature is None:
            if level > 0:
                yield f"{name} level {level} (supported: none)"
        elif not feature.min_level <= level <= feature.max_level:
            yield f"{name} level {level} (supported: {feature.min_level} to {feature.max_level})"
