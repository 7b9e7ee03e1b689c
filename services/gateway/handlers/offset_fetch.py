"""OffsetFetch (9), versions 1-10. The groups' coordinators answer, in the order of the groups.

v2 null means all topics, a top-level error · v5 leader epochs · v6 flexible · v7 require_stable · v8 several groups · v9 member
ids and epochs (KIP-848) · v10 topic ids.

If no owner answers, the group has the error (v1: each partition). The request is a read, so it goes to the next coordinator if
the first one is gone.

Differences from Kafka: any broker id accepts it, wherever the groups' coordinators are.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.group_refusals import offset_fetch_group
from libs.wire.messages import offset_fetch
from libs.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    read_response,
    write_request,
)
from libs.wire.primitives import Reader
from services.gateway.data_path.data_path import DataPath
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.exchange import Exchange
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.groups import relay
from services.gateway.groups.split import MultiGroupApi, ask_each, relayed
from services.gateway.shortcuts import relay_shortcut

FIRST_WITH_SEVERAL_GROUPS = 8
"""The first version that names several groups."""

_of_one_group: Final = relayed(ApiKey.OFFSET_FETCH, offset_fetch)


def begin(data_path: DataPath, exchange: Exchange, reader: Reader) -> bool:
    if exchange.api_version >= FIRST_WITH_SEVERAL_GROUPS:
        return relay.begin_single_group_request(data_path, exchange, reader)
    return relay_shortcut.begin_request(data_path, exchange, reader)


async def handle(gateway: GatewayState, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    if context.api_version < FIRST_WITH_SEVERAL_GROUPS:
        response: OffsetFetchResponse = await _of_one_group(gateway, context, request)
        return response
    api: MultiGroupApi[OffsetFetchRequestGroup, OffsetFetchResponseGroup] = MultiGroupApi(
        ApiKey.OFFSET_FETCH,
        write_request,
        read_response,
        lambda group: group.group_id,
        lambda groups: OffsetFetchRequest(groups=groups, require_stable=request.require_stable),
        lambda response: list(response.groups),
        offset_fetch_group,
    )
    return OffsetFetchResponse(groups=await ask_each(gateway, context, api, request.groups))


SERVED_API: Final = ServedApi(APIS[ApiKey.OFFSET_FETCH], handle, begin=begin)
