"""DescribeGroups (15), versions 0-6. The groups' coordinators answer, in the order of the groups.

v3 authorized operations · v4 static members (KIP-345) · v5 flexible · v6 GROUP_ID_NOT_FOUND and error messages (KIP-1043).

Differences from Kafka: any broker id accepts it, wherever the groups' coordinators are.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.group_refusals import describe_group
from libs.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    read_response,
    write_request,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.groups import relay
from services.gateway.groups.split import MultiGroupApi, ask_each


async def handle(gateway: GatewayState, context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    api: MultiGroupApi[str, DescribedGroup] = MultiGroupApi(
        ApiKey.DESCRIBE_GROUPS,
        write_request,
        read_response,
        str,
        lambda groups: DescribeGroupsRequest(groups, request.include_authorized_operations),
        lambda response: list(response.groups),
        describe_group,
    )
    return DescribeGroupsResponse(groups=await ask_each(gateway, context, api, request.groups))


SERVED_API: Final = ServedApi(APIS[ApiKey.DESCRIBE_GROUPS], handle, begin=relay.begin_single_group_request)
