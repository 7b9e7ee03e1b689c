"""IncrementalAlterConfigs (44), versions 0-1 (KIP-339): set, delete, append, subtract. The controller decides.

v1 flexible.

A broker's own configs are changed on that broker's port, or on the bootstrap port. So are the levels of its loggers,
without a controller (`broker_loggers.py`).

Differences from Kafka: as for DescribeConfigs. A config that Kafka accepts and Penstock does not support yet is refused with
INVALID_CONFIG, never ignored. A config that applies to the whole cluster cannot be set for one broker.
"""

from typing import Final

from libs.rpc.contracts.controller import ConfigChange, ConfigResource
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.handlers.broker_loggers import BROKER_LOGGER, alter_loggers
from services.gateway.handlers.config_changes import change_configs


async def handle(
    gateway: GatewayState, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    resources = [
        ConfigResource(
            resource.resource_type,
            resource.resource_name,
            tuple(ConfigChange(config.name, config.config_operation, config.value) for config in resource.configs),
        )
        for resource in request.resources
    ]
    loggers = [resource for resource in resources if resource.resource_type == BROKER_LOGGER]
    stored = [resource for resource in resources if resource.resource_type != BROKER_LOGGER]
    results = await alter_loggers(gateway, context, loggers, request.validate_only)
    results += await change_configs(gateway, context, stored, request.validate_only)
    return IncrementalAlterConfigsResponse(
        responses=[AlterConfigsResourceResponse(r.error, r.message, r.resource_type, r.name) for r in results]
    )


SERVED_API: Final = ServedApi(APIS[ApiKey.INCREMENTAL_ALTER_CONFIGS], handle)
