"""What AlterConfigs and IncrementalAlterConfigs share: ask the controller about what it should see, and answer the rest."""

from collections.abc import Sequence

from libs.rpc.contracts.controller import ALTER_CONFIGS, AlterConfigs, AlterConfigsReply, ConfigResource, ConfigResult
from services.gateway.controller_calls import NotDone, ask
from services.gateway.core.config_resources import sort_out
from services.gateway.state import GatewayState, RequestContext

PATIENCE_MS = 30_000
"""The requests carry no timeout of their own."""


async def change_configs(
    gateway: GatewayState, context: RequestContext, resources: Sequence[ConfigResource], validate_only: bool
) -> list[ConfigResult]:
    forwarded, refused = sort_out(gateway.image, context.broker_id, resources)
    if not forwarded:
        return refused
    wanted = AlterConfigs(tuple(forwarded), validate_only)
    try:
        reply = await ask(gateway, ALTER_CONFIGS, wanted, AlterConfigsReply, PATIENCE_MS)
    except NotDone as failure:
        return refused + [ConfigResult(r.resource_type, r.name, failure.error, failure.message) for r in forwarded]
    return refused + list(reply.resources)
