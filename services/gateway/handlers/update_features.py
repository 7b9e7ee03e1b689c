"""UpdateFeatures (57), versions 0-2 (KIP-584). The controller decides, for all features of a request together.

v1 a type for each update, and validation only · v2 no results for each feature. In v0 each update is an upgrade: as in Kafka,
nobody reads `allow_downgrade`.

Differences from Kafka: only `group.version` 1 and `transaction.version` 0 to 2 exist (`libs/cluster/features.py`).
"""

from typing import Final

from libs.rpc.contracts.controller import UPDATE_FEATURES, UPGRADE, FeatureUpdate, UpdateFeatures, UpdateFeaturesReply
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.controller_requests import RequestFailed, ask

_NO_ERROR = "NONE"
"""Kafka's message for a feature that was updated."""


async def handle(gateway: GatewayState, context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    typed = context.api_version >= 1
    updates = [
        FeatureUpdate(u.feature, u.max_version_level, u.upgrade_type if typed else UPGRADE) for u in request.feature_updates
    ]
    change = UpdateFeatures(tuple(updates), request.validate_only)
    try:
        await ask(gateway, context, UPDATE_FEATURES, change, UpdateFeaturesReply, request.timeout_ms)
    except RequestFailed as failure:
        return UpdateFeaturesResponse(error_code=failure.error, error_message=failure.message)
    return UpdateFeaturesResponse(
        results=[UpdatableFeatureResult(update.feature, error_message=_NO_ERROR) for update in request.feature_updates]
    )


SERVED_API: Final = ServedApi(APIS[ApiKey.UPDATE_FEATURES], handle)
