"""DeleteGroups (42), versions 0-2. The groups' coordinators answer, in the order of the groups. As in Kafka, a group
that is named twice is answered once.

v2 flexible.

Differences from Kafka: any broker id accepts it, wherever the groups' coordinators are.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.group_refusals import delete_group
from libs.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    read_response,
    write_request,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.groups import relay
from services.gateway.groups.split import MultiGroupApi, ask_each


async def handle(gateway: GatewayState, context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    api: MultiGroupApi[str, DeletableGroupResult] = MultiGroupApi(
        ApiKey.DELETE_GROUPS,
        write_request,
        read_response,
        str,
        DeleteGroupsRequest,
        lambda response: list(response.results),
        delete_group,
    )
    return DeleteGroupsResponse(results=await ask_each(gateway, context, api, list(dict.fromkeys(request.groups_names))))


SERVED_API: Final = ServedApi(APIS[ApiKey.DELETE_GROUPS], handle, begin=relay.begin_single_group_request)
