"""ListGroups (16), versions 0-5. The groups of all shards that the addressed broker id stands for.

v3 flexible · v4 states, and a filter by them · v5 types, and a filter by them (KIP-848).

FindCoordinator names that broker id for the shard. Clients ask each broker of Metadata once, and so get each group once. If a
shard's owner does not answer in time, the whole answer is COORDINATOR_NOT_AVAILABLE, or COORDINATOR_LOAD_IN_PROGRESS while the
shard is being loaded. Clients retry then, whereas they would take a list without its groups as complete.

Differences from Kafka: the bootstrap port, which is no broker, lists the groups of the whole cluster.
"""

import asyncio

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse, read_response, write_request
from libs.wire.primitives import ProtocolError, Reader, Writer
from services.gateway.core.addresses import BOOTSTRAP
from services.gateway.exchange.request_context import GatewayState, RequestContext


async def handle(gateway: GatewayState, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    shards = gateway.shards
    shard_ids = list(range(shards.count)) if context.broker_id == BOOTSTRAP else shards.of_broker(context.broker_id)
    writer = Writer()
    write_request(writer, request, context.api_version)
    body = bytes(writer.buffer)

    async def ask(shard: int) -> ListGroupsResponse:
        error, payload = await gateway.ask_coordinator(shard, ApiKey.LIST_GROUPS, body, context)
        if error:
            return ListGroupsResponse(error_code=error)
        try:
            return read_response(Reader(memoryview(payload)), context.api_version)
        except ProtocolError:
            return ListGroupsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)

    answers = await asyncio.gather(*[ask(shard) for shard in shard_ids])
    errors = [answer.error_code for answer in answers if answer.error_code]
    if errors:
        # A shard that only moved answers the retry. Admin clients would take NOT_COORDINATOR as final here.
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if errors[0] == ErrorCode.NOT_COORDINATOR else errors[0]
        return ListGroupsResponse(error_code=error)
    return ListGroupsResponse(groups=[group for answer in answers for group in answer.groups])
