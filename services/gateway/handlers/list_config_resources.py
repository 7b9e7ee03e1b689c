"""ListConfigResources (74), versions 0-1 (KIP-1142): the resources that have configs, or may have.

v0 client metrics only, when it was ListClientMetricsResources · v1 the requested types, or all if none is named.

It lists the topics and brokers that exist, the brokers once more for their loggers. It lists the groups that have configs,
whether or not they exist. There are no client metrics yet.

Differences from Kafka: a group is no longer listed when the last of its configs is removed.
"""

from collections.abc import Callable, Iterable
from typing import Final

from libs.cluster.configs.definitions import BROKER, GROUP, TOPIC
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.list_config_resources import ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.handlers.broker_loggers import BROKER_LOGGER

CLIENT_METRICS: Final = 16

_LISTED: Final[dict[int, Callable[[ClusterImage], Iterable[str]]]] = {
    TOPIC: lambda image: image.topics,
    BROKER: lambda image: map(str, sorted(image.members(STORAGE))),
    BROKER_LOGGER: lambda image: map(str, sorted(image.members(STORAGE))),
    CLIENT_METRICS: lambda image: (),
    GROUP: lambda image: (name for (kind, name), values in image.overrides_by_resource.items() if kind == "group" and values),
}


async def handle(
    gateway: GatewayState, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    wanted = [CLIENT_METRICS] if context.api_version == 0 else request.resource_types or list(_LISTED)
    if any(kind not in _LISTED for kind in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = gateway.image
    return ListConfigResourcesResponse(
        config_resources=[ConfigResource(name, kind) for kind in dict.fromkeys(wanted) for name in _LISTED[kind](image)]
    )


SERVED_API: Final = ServedApi(APIS[ApiKey.LIST_CONFIG_RESOURCES], handle)
