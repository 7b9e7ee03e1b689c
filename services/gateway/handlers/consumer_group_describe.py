"""ConsumerGroupDescribe (69), versions 0-1 (KIP-848). The groups' coordinators are asked; their answers keep the groups' order.

v1 the type of each member.

Differences from Kafka: any broker id takes it, whoever the groups' coordinators are.
"""

from libs.wire.api import ApiKey
from libs.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    read_response,
    write_request,
)
from services.gateway import relay
from services.gateway.refusals import consumer_group_describe_group
from services.gateway.split import Batched, ask_each
from services.gateway.state import GatewayState, RequestContext

begin = relay.of_only_group


async def handle(
    gateway: GatewayState, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    batched: Batched[str, DescribedGroup] = Batched(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        write_request,
        read_response,
        str,
        lambda groups: ConsumerGroupDescribeRequest(groups, request.include_authorized_operations),
        lambda response: list(response.groups),
        consumer_group_describe_group,
    )
    return ConsumerGroupDescribeResponse(groups=await ask_each(gateway, context, batched, request.group_ids))
