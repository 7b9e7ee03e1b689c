"""DeleteGroups (42), versions 0-2. The groups' coordinators are asked; their answers come back in the order of the groups, one
for a group that is named twice, as in Kafka.

v2 flexible.

Differences from Kafka: any broker id takes it, whoever the groups' coordinators are.
"""

from libs.wire.api import ApiKey
from libs.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    read_response,
    write_request,
)
from services.gateway import relay
from services.gateway.refusals import delete_group
from services.gateway.split import Batched, ask_each
from services.gateway.state import GatewayState, RequestContext

begin = relay.of_only_group


async def handle(gateway: GatewayState, context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    batched: Batched[str, DeletableGroupResult] = Batched(
        ApiKey.DELETE_GROUPS,
        write_request,
        read_response,
        str,
        DeleteGroupsRequest,
        lambda response: list(response.results),
        delete_group,
    )
    return DeleteGroupsResponse(results=await ask_each(gateway, context, batched, list(dict.fromkeys(request.groups_names))))
