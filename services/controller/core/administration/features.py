"""UpdateFeatures (KIP-584): which finalized levels change. Kafka's order of checks, and its words."""

from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

from libs.cluster.features import Feature, finalized_levels
from libs.cluster.image import ClusterImage
from libs.rpc.contracts.controller import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, FeatureUpdate
from libs.wire.errors import ErrorCode
from services.controller.core.model.refusal import Refused

UPGRADE_TYPES: Final = (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)
_NO_CONTROLLER: Final = -1


def update_features(image: ClusterImage, updates: Iterable[FeatureUpdate]) -> dict[str, int]:
    """The new levels by feature, without those that are finalized already. Of several updates to a feature the last counts.

    Raises Refused if one update is not possible. No feature changes then.
    """
    controller_id = image.controller.node_id if image.controller is not None else _NO_CONTROLLER
    finalized = {feature.name: (feature, level) for feature, level in finalized_levels(image)}
    last = {update.name: update for update in updates}
    for update in last.values():
        _check(update, finalized, controller_id)
    return {name: update.level for name, update in last.items() if update.level != finalized[name][1]}


def _check(update: FeatureUpdate, finalized: Mapping[str, tuple[Feature, int]], controller_id: int) -> None:
    if update.upgrade_type not in UPGRADE_TYPES:
        _refuse(update, "The controller does not support the given upgrade type.")
    if update.level < 0:
        _refuse(update, "A feature version cannot be less than 0.")
    if update.name not in finalized and update.level == 0:
        _refuse(update, f"Feature {update.name} not found.")
    if update.name not in finalized:
        _refuse(update, f"Local controller {controller_id} does not support this feature.")
    feature, level = finalized[update.name]
    if not feature.min_level <= update.level <= feature.max_level:
        _refuse(update, f"Local controller {controller_id} only supports versions {feature.min_level}-{feature.max_level}")
    if update.level < level and update.upgrade_type == UPGRADE:
        _refuse(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.",
        )
    if update.level > level and update.upgrade_type != UPGRADE:
        _refuse(update, "Can't downgrade to a newer version.")


def _refuse(update: FeatureUpdate, reason: str) -> NoReturn:
    raise Refused(
        ErrorCode.INVALID_UPDATE_VERSION,
        "The update failed for all features since the following feature had an error: "
        f"Invalid update version {update.level} for feature {update.name}. {reason}",
    )
