"""OffsetFetch (9), versions 1-10. The groups' coordinators are asked; their answers come back in the order of the groups.

v2 null asks for all topics, an error for all of it · v5 leader epochs · v6 flexible · v7 require_stable · v8 several groups · v9
member ids and epochs (KIP-848) · v10 topic ids.

Where there is no answer the group has the error (v1: each partition). It may be asked twice, so it goes to the next coordinator
where the first one is gone.

Differences from Kafka: any broker id takes it, whoever the groups' coordinators are.
"""

from libs.wire.api import ApiKey
from libs.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    read_response,
    write_request,
)
from libs.wire.primitives import Reader
from services.gateway import relay
from services.gateway.data_path import DataPath
from services.gateway.exchange import Exchange
from services.gateway.refusals import offset_fetch_group
from services.gateway.split import Batched, ask_each
from services.gateway.state import GatewayState, RequestContext

BATCHED = 8
"""The first version that names several groups."""


def begin(data_path: DataPath, exchange: Exchange, reader: Reader) -> bool:
    if exchange.api_version >= BATCHED:
        return relay.of_only_group(data_path, exchange, reader)
    return relay.of_group(data_path, exchange, reader)


async def handle(gateway: GatewayState, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    batched: Batched[OffsetFetchRequestGroup, OffsetFetchResponseGroup] = Batched(
        ApiKey.OFFSET_FETCH,
        write_request,
        read_response,
        lambda group: group.group_id,
        lambda groups: OffsetFetchRequest(groups=groups, require_stable=request.require_stable),
        lambda response: list(response.groups),
        offset_fetch_group,
    )
    return OffsetFetchResponse(groups=await ask_each(gateway, context, batched, request.groups))
