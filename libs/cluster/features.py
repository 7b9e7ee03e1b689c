"""Features of the cluster, in Kafka's sense (KIP-584): the levels that the software supports, and the finalized ones. No I/O.

`group.version` 1 stands for the consumer group protocol (KIP-848), and `transaction.version` 2 for transactions with an epoch of
their own (KIP-890, part 2). Kafka's other features stand for what Penstock lacks, or for KRaft.

Clients decide by the finalized level. Nothing in Penstock does: each request is served as its version asks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from libs.cluster.image import ClusterImage


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature, the levels that the software supports, and the one that is finalized in a cluster without a record of it."""

    name: str
    min_level: int
    max_level: int
    default_level: int


FEATURES: Final = (Feature("group.version", 1, 1, 1), Feature("transaction.version", 0, 2, 2))


def finalized_levels(image: ClusterImage) -> Iterator[tuple[Feature, int]]:
    """Each feature with its finalized level. Level 0 means that the feature is not finalized."""
    for feature in FEATURES:
        yield feature, image.finalized_features.get(feature.name, feature.default_level)
