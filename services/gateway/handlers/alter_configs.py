"""AlterConfigs (33), versions 0-2: all of a resource's configs at once. A config that is not named returns to its default.

v2 flexible. Kafka's tools moved to IncrementalAlterConfigs; librdkafka and older clients still use this.

Differences from Kafka: as for IncrementalAlterConfigs.
"""

from typing import Final

from libs.rpc.contracts.controller import ConfigChange, ConfigResource
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.handlers.config_changes import change_configs

SET = 0


async def handle(gateway: GatewayState, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    resources = [
        ConfigResource(
            resource.resource_type,
            resource.resource_name,
            tuple(ConfigChange(config.name, SET, config.value) for config in resource.configs),
            replace=True,
        )
        for resource in request.resources
    ]
    results = await change_configs(gateway, context, resources, request.validate_only)
    return AlterConfigsResponse(
        responses=[AlterConfigsResourceResponse(r.error, r.message, r.resource_type, r.name) for r in results]
    )


SERVED_API: Final = ServedApi(APIS[ApiKey.ALTER_CONFIGS], handle)
