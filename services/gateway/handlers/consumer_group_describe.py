"""ConsumerGroupDescribe (69), versions 0-1 (KIP-848). The groups' coordinators answer, in the order of the groups.

v1 the type of each member.

Differences from Kafka: any broker id accepts it, wherever the groups' coordinators are.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.group_refusals import consumer_group_describe_group
from libs.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    read_response,
    write_request,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.groups import relay
from services.gateway.groups.split import MultiGroupApi, ask_each


async def handle(
    gateway: GatewayState, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    api: MultiGroupApi[str, DescribedGroup] = MultiGroupApi(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        write_request,
        read_response,
        str,
        lambda groups: ConsumerGroupDescribeRequest(groups, request.include_authorized_operations),
        lambda response: list(response.groups),
        consumer_group_describe_group,
    )
    return ConsumerGroupDescribeResponse(groups=await ask_each(gateway, context, api, request.group_ids))


SERVED_API: Final = ServedApi(APIS[ApiKey.CONSUMER_GROUP_DESCRIBE], handle, begin=relay.begin_single_group_request)
