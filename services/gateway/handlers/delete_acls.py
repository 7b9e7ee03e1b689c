"""DeleteAcls (31), versions 1-3.

v1 pattern types · v2 flexible · v3 users as resources.

There is no authorizer. As from a broker of Kafka without one, each filter is answered with SECURITY_DISABLED.

Differences from Kafka: none without an authorizer.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext

_MESSAGE = "No Authorizer is configured."


async def handle(gateway: GatewayState, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=_MESSAGE)
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))


SERVED_API: Final = ServedApi(APIS[ApiKey.DELETE_ACLS], handle)
