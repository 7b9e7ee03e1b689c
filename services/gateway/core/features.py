"""The features of the cluster, in Kafka's sense (KIP-584), and whether a level of one may be set. No I/O.

`group.version` 1 stands for the consumer group protocol (KIP-848), and `transaction.version` 2 for transactions with an epoch of
their own (KIP-890, part 2). The software always has both. Kafka's other features stand for what Penstock lacks, or for KRaft.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature, the levels that the software supports, and the one that is finalized."""

    name: str
    min_level: int
    max_level: int
    level: int


FEATURES: Final = (Feature("group.version", 1, 1, 1), Feature("transaction.version", 2, 2, 2))

_BY_NAME: Final = {feature.name: feature for feature in FEATURES}


class UpgradeType(IntEnum):
    """Kafka's numbers. Any other is unknown."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    name: str
    level: int
    upgrade_type: int


def refusal(updates: Iterable[FeatureUpdate], controller_id: int) -> str | None:
    """Why the updates are refused, in Kafka's words: none of them happens then. None: each level is the one in force."""
    for update in updates:
        reason = _reason_against(update, controller_id)
        if reason is not None:
            return (
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.level} for feature {update.name}. {reason}"
            )
    return None


def _reason_against(update: FeatureUpdate, controller_id: int) -> str | None:
    if update.upgrade_type not in [*UpgradeType]:
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    feature = _BY_NAME.get(update.name)
    if feature is None:
        return f"Local controller {controller_id} does not support this feature."
    if not feature.min_level <= update.level <= feature.max_level:
        return f"Local controller {controller_id} only supports versions {feature.min_level}-{feature.max_level}"
    assert update.level == feature.level, "a feature with a second level needs somebody who stores the one in force"
    return None
