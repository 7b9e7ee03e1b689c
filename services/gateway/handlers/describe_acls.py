"""DescribeAcls (29), versions 1-3.

v1 pattern types · v2 flexible · v3 users as resources.

There is no authorizer. As from a broker of Kafka without one, the answer is SECURITY_DISABLED.

Differences from Kafka: none without an authorizer.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext

_MESSAGE = "No Authorizer is configured on the broker"


async def handle(gateway: GatewayState, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_MESSAGE)


SERVED_API: Final = ServedApi(APIS[ApiKey.DESCRIBE_ACLS], handle)
