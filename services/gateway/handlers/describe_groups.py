"""DescribeGroups (15), versions 0-6. The groups' coordinators are asked; their answers come back in the order of the groups.

v3 authorized operations · v4 static members (KIP-345) · v5 flexible · v6 GROUP_ID_NOT_FOUND and error messages (KIP-1043).

Differences from Kafka: any broker id takes it, whoever the groups' coordinators are.
"""

from libs.wire.api import ApiKey
from libs.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    read_response,
    write_request,
)
from services.gateway import relay
from services.gateway.refusals import describe_group
from services.gateway.split import Batched, ask_each
from services.gateway.state import GatewayState, RequestContext

begin = relay.of_only_group


async def handle(gateway: GatewayState, context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    batched: Batched[str, DescribedGroup] = Batched(
        ApiKey.DESCRIBE_GROUPS,
        write_request,
        read_response,
        str,
        lambda groups: DescribeGroupsRequest(groups, request.include_authorized_operations),
        lambda response: list(response.groups),
        describe_group,
    )
    return DescribeGroupsResponse(groups=await ask_each(gateway, context, batched, request.groups))
