"""ListTransactions (66), versions 0-2 (KIP-664). The transactional ids of all shards that the addressed broker id stands for.

v1 only transactions that began long ago (KIP-994) · v2 a pattern for transactional ids (KIP-1152).

FindCoordinator names that broker id for the shard. Clients ask each broker of Metadata once, and so get each id once. If a
shard's owner does not answer in time, the whole answer is COORDINATOR_NOT_AVAILABLE, or COORDINATOR_LOAD_IN_PROGRESS while the
shard is being loaded. Clients retry then, whereas they would take a list without its ids as complete.

Differences from Kafka: the bootstrap port, which is no broker, lists the transactional ids of the whole cluster.
"""

import asyncio

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    read_response,
    write_request,
)
from libs.wire.primitives import ProtocolError, Reader, Writer
from libs.wire.transaction_states import STATES
from services.gateway.core.addresses import BOOTSTRAP
from services.gateway.exchange.request_context import GatewayState, RequestContext


async def handle(gateway: GatewayState, context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    shards = gateway.transaction_shards
    shard_ids = list(range(shards.count)) if context.broker_id == BOOTSTRAP else shards.of_broker(context.broker_id)
    writer = Writer()
    write_request(writer, request, context.api_version)
    body = bytes(writer.buffer)

    async def ask(shard: int) -> ListTransactionsResponse:
        error, payload = await gateway.ask_coordinator(shard, ApiKey.LIST_TRANSACTIONS, body, context)
        if error:
            return ListTransactionsResponse(error_code=error)
        try:
            return read_response(Reader(memoryview(payload)), context.api_version)
        except ProtocolError:
            return ListTransactionsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)

    answers = await asyncio.gather(*[ask(shard) for shard in shard_ids])
    errors = [answer.error_code for answer in answers if answer.error_code]
    if errors:
        # A shard that only moved answers the retry. Admin clients would take NOT_COORDINATOR as final here.
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if errors[0] == ErrorCode.NOT_COORDINATOR else errors[0]
        return ListTransactionsResponse(error_code=error)
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in STATES]
    states = [state for answer in answers for state in answer.transaction_states]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=states)
