"""UnregisterBroker (64), version 0 (KIP-500). The controller decides.

Differences from Kafka: a node that is alive is refused.
"""

from typing import Final

from libs.rpc.contracts.controller import UNREGISTER_BROKER, UnregisterBroker, UnregisterBrokerReply
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.controller_requests import RequestFailed, ask


async def handle(gateway: GatewayState, context: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    try:
        await ask(gateway, context, UNREGISTER_BROKER, UnregisterBroker(request.broker_id), UnregisterBrokerReply)
    except RequestFailed as failure:
        return UnregisterBrokerResponse(error_code=failure.error, error_message=failure.message)
    return UnregisterBrokerResponse()


SERVED_API: Final = ServedApi(APIS[ApiKey.UNREGISTER_BROKER], handle)
