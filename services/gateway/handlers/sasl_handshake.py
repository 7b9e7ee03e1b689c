"""SaslHandshake (17), versions 0-1.

v0 the tokens that follow are frames of their own, without a header,
v1 they travel in SaslAuthenticate requests.

This answers where nothing is to be authenticated (any more): on a PLAINTEXT listener, and after SASL. What comes before that is
in `services/gateway/requests/authentication.py`. Kafka advertises the API on such a listener too, and answers
ILLEGAL_SASL_STATE without mechanisms. A client that expects SASL then says so. A client that guesses Kafka's version looks for
the API.
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
