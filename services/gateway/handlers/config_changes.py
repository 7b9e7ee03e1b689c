"""The shared part of AlterConfigs and IncrementalAlterConfigs. The controller decides on valid resources; the gateway refuses the
others."""

from collections.abc import Sequence

from libs.rpc.contracts.controller import ALTER_CONFIGS, AlterConfigs, AlterConfigsReply, ConfigResource, ConfigResult
from services.gateway.core.config_resources import split_resources
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.controller_requests import RequestFailed, ask


async def change_configs(
    gateway: GatewayState, context: RequestContext, resources: Sequence[ConfigResource], validate_only: bool
) -> list[ConfigResult]:
    """The results of all resources: those that the gateway refuses, then the controller's."""
    forwarded, refused = split_resources(gateway.image, context.broker_id, resources)
    if not forwarded:
        return refused
    wanted = AlterConfigs(tuple(forwarded), validate_only)
    try:
        reply = await ask(gateway, context, ALTER_CONFIGS, wanted, AlterConfigsReply)
    except RequestFailed as failure:
        return refused + [ConfigResult(r.resource_type, r.name, failure.error, failure.message) for r in forwarded]
    return refused + list(reply.resources)
