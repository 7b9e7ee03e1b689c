"""ListGroups (16), versions 0-5. The groups of all shards for which the addressed broker id stands.

v3 flexible · v4 states, and a filter by them · v5 types, and a filter by them (KIP-848).

That is the broker id which FindCoordinator names for the shard: clients ask each broker of Metadata once, and so hear of each
group once. A shard that nobody answers for in time makes the whole answer COORDINATOR_NOT_AVAILABLE, or 14 while it is being
loaded: clients ask again, where a list without it would be taken for whole.

Differences from Kafka: the bootstrap port, which is no broker, lists the groups of the whole cluster.
"""

import asyncio

from libs.wire.api import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse, read_response, write_request
from libs.wire.primitives import ProtocolError, Reader, Writer
from services.gateway.state import BOOTSTRAP, GatewayState, RequestContext


async def handle(gateway: GatewayState, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    shards = gateway.shards
    asked = list(range(shards.count)) if context.broker_id == BOOTSTRAP else shards.behind(context.broker_id)
    writer = Writer()
    write_request(writer, request, context.api_version)
    body = bytes(writer.buffer)

    async def ask(shard: int) -> ListGroupsResponse:
        error, payload = await gateway.ask_shard(shard, ApiKey.LIST_GROUPS, body, context)
        if error:
            return ListGroupsResponse(error_code=error)
        try:
            return read_response(Reader(memoryview(payload)), context.api_version)
        except ProtocolError:
            return ListGroupsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)

    answers = await asyncio.gather(*[ask(shard) for shard in asked])
    errors = [answer.error_code for answer in answers if answer.error_code]
    if errors:
        # Who only moved is there at the next try, and admin clients take 16 for final here.
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if errors[0] == ErrorCode.NOT_COORDINATOR else errors[0]
        return ListGroupsResponse(error_code=error)
    return ListGroupsResponse(groups=[group for answer in answers for group in answer.groups])
