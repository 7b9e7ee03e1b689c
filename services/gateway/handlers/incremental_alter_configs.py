"""IncrementalAlterConfigs (44), versions 0-1 (KIP-339): set, delete, append, subtract. The controller decides.

v1 flexible.

A named broker's configs are changed on that broker's own port, or on the bootstrap port.

Differences from Kafka: as for DescribeConfigs; a config that Kafka takes and we do not act on yet is refused with
INVALID_CONFIG, never ignored; what decides for the whole cluster cannot be set for one broker.
"""

from libs.rpc.contracts.controller import ConfigChange, ConfigResource
from libs.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from services.gateway.config_changes import change_configs
from services.gateway.state import GatewayState, RequestContext


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
    results = await change_configs(gateway, context, resources, request.validate_only)
    return IncrementalAlterConfigsResponse(
        responses=[AlterConfigsResourceResponse(r.error, r.message, r.resource_type, r.name) for r in results]
    )
