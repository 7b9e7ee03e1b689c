"""SaslHandshake (17), versions 0-1.

v1 the tokens that follow travel in SaslAuthenticate requests.

Every listener is PLAINTEXT, and needs no authentication. Kafka advertises the API on such a listener too, and answers
ILLEGAL_SASL_STATE without mechanisms. A client that expects SASL then says so. A client that guesses Kafka's version looks for
the API.

Differences from Kafka: none.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext


async def handle(gateway: GatewayState, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


SERVED_API: Final = ServedApi(APIS[ApiKey.SASL_HANDSHAKE], handle)
