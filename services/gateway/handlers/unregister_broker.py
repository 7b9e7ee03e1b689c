"""UnregisterBroker (64), version 0 (KIP-500). The controller decides.

Differences from Kafka: a node that is alive is refused.
"""

from libs.rpc.contracts.controller import UNREGISTER_BROKER, UnregisterBroker, UnregisterBrokerReply
from libs.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from services.gateway.config_changes import PATIENCE_MS
from services.gateway.controller_calls import NotDone, ask
from services.gateway.state import GatewayState, RequestContext


async def handle(gateway: GatewayState, context: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    try:
        await ask(gateway, UNREGISTER_BROKER, UnregisterBroker(request.broker_id), UnregisterBrokerReply, PATIENCE_MS)
    except NotDone as failure:
        return UnregisterBrokerResponse(error_code=failure.error, error_message=failure.message)
    return UnregisterBrokerResponse()
