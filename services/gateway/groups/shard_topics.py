"""The internal topics whose partitions are the shards of coordinators. The first client that needs one has it created."""

from typing import Final

from libs.rpc.contracts.controller import CREATE_INTERNAL_TOPIC, CreateInternalTopic, TopicsReply
from services.gateway.core.coordinator_shards import CoordinatorKind
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.controller_requests import RequestFailed, ask

CREATION_S_MAX: Final = 1.0
"""The longest wait for a coordinator that does not exist yet."""


async def create_topic(gateway: GatewayState, context: RequestContext, kind: CoordinatorKind) -> bool:
    """Has the controller create the topic. False: it did not answer, or could not."""
    request = CreateInternalTopic(kind.topic)
    try:
        await ask(gateway, context, CREATE_INTERNAL_TOPIC, request, TopicsReply, int(CREATION_S_MAX * 1000))
    except RequestFailed:
        return False
    return True
