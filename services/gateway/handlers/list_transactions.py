"""ListTransactions (66), versions 0-2 (KIP-664). The transactional ids of all shards that the addressed broker id stands for.

v1 only transactions that began long ago (KIP-994) · v2 a pattern for transactional ids (KIP-1152).

FindCoordinator names that broker id for the shard. Clients ask each broker of Metadata once, and so get each id once. If a
shard's owner does not answer in time, the whole answer is COORDINATOR_NOT_AVAILABLE, or COORDINATOR_LOAD_IN_PROGRESS while the
shard is being loaded. Clients retry then, whereas they would take a list without its ids as complete.

Differences from Kafka: the bootstrap port, which is no broker, lists the transactional ids of the whole cluster.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, write_request
from libs.wire.primitives import Writer
from libs.wire.transaction_states import STATES
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.exchange import WrittenBody
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.groups.split import list_all


async def handle(
    gateway: GatewayState, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | WrittenBody:
    writer = Writer()
    write_request(writer, request, context.api_version)
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in STATES]
    answer = await list_all(gateway, context, ApiKey.LIST_TRANSACTIONS, bytes(writer.buffer), unknown)
    return ListTransactionsResponse(error_code=answer) if isinstance(answer, int) else answer


SERVED_API: Final = ServedApi(APIS[ApiKey.LIST_TRANSACTIONS], handle)
