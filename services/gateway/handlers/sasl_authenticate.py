"""SaslAuthenticate (36), versions 0-2.

v1 the session's lifetime · v2 flexible.

This answers on a PLAINTEXT listener, where a connection counts as authenticated from its start, and after SASL. What comes before
that is in `services/gateway/requests/authentication.py`. As in Kafka, each token is answered with
ILLEGAL_SASL_STATE, and the connection goes on.

Differences from Kafka: none.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext

_MESSAGE = "SaslAuthenticate request received after successful authentication"


async def handle(gateway: GatewayState, context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_MESSAGE)


SERVED_API: Final = ServedApi(APIS[ApiKey.SASL_AUTHENTICATE], handle)
