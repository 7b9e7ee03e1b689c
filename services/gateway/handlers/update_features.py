"""UpdateFeatures (57), versions 0-2 (KIP-584).

v1 a type for each update, and validation only · v2 no results for each feature.

Each feature (`services/gateway/core/features.py`) has one level, so there is nothing to store: an update to that level succeeds,
as in Kafka, and any other answers INVALID_UPDATE_VERSION for the whole request.

Differences from Kafka: only `group.version` 1 and `transaction.version` 2 exist, and no lower level of them.
"""

from libs.wire.errors import ErrorCode
from libs.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from services.gateway.core.features import FeatureUpdate, UpgradeType, refusal
from services.gateway.exchange.request_context import GatewayState, RequestContext

_NO_CONTROLLER = -1
_NO_ERROR = "NONE"
"""Kafka's message for a feature that was updated."""


async def handle(gateway: GatewayState, context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    elected = gateway.image.controller
    updates = [FeatureUpdate(u.feature, u.max_version_level, _type(u, context.api_version)) for u in request.feature_updates]
    message = refusal(updates, elected.node_id if elected is not None else _NO_CONTROLLER)
    if message is not None:
        return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=message)
    return UpdateFeaturesResponse(
        results=[UpdatableFeatureResult(update.feature, error_message=_NO_ERROR) for update in request.feature_updates]
    )


def _type(update: FeatureUpdateKey, version: int) -> int:
    if version > 0:
        return update.upgrade_type
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
