"""ApiVersions (18), versions 0-4.

v1 throttle time · v2 throttling after the answer · v3 flexible, client software name and version, features · v4 features whose
lowest level is 0.

A version that is not served is answered with UNSUPPORTED_VERSION in version 0's format. The answer holds the one entry {18, 0,
4}, from which clients choose their next attempt (KIP-511). A client software name or version outside Kafka's pattern gets
INVALID_REQUEST.

The epoch of the finalized features is the revision of the metadata, as in Kafka it is an offset of it. A feature of level 0 is
not finalized. Before v4, supported features whose lowest level is 0 are left out: Java's older clients cannot read them
(KAFKA-17492).

Differences from Kafka: the only features are group.version and transaction.version (`libs/cluster/features.py`). metadata.version
and kraft.version belong to KRaft; the others stand for what is not served yet. Kafka's clients take a missing feature as level 0.
"""

import re
from typing import Final

from libs.cluster.features import FEATURES, finalized_levels
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext

_OURS: Final = APIS[ApiKey.API_VERSIONS]
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)


async def handle(gateway: GatewayState, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """It also stores the client's software name and version in `context`."""
    if not _OURS.serves(context.api_version):
        ours = ApiVersion(_OURS.key, _OURS.min_version, _OURS.max_version)
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ours])
    if context.api_version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.software_name, context.software_version = name, version
    image = gateway.image
    supported = [f for f in FEATURES if f.min_level > 0 or context.api_version >= 4]
    return ApiVersionsResponse(
        api_keys=[ApiVersion(key, api.advertised_min_version, api.max_version) for key, api in sorted(APIS.items())],
        supported_features=[SupportedFeatureKey(f.name, f.min_level, f.max_level) for f in supported],
        finalized_features_epoch=image.revision,
        finalized_features=[FinalizedFeatureKey(f.name, level, level) for f, level in finalized_levels(image) if level > 0],
    )


SERVED_API: Final = ServedApi(APIS[ApiKey.API_VERSIONS], handle, in_any_version=True)
