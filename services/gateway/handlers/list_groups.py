"""ListGroups (16), versions 0-5. The groups of all shards that the addressed broker id stands for.

v3 flexible · v4 states, and a filter by them · v5 types, and a filter by them (KIP-848).

FindCoordinator names that broker id for the shard. Clients ask each broker of Metadata once, and so get each group once. If a
shard's owner does not answer in time, the whole answer is COORDINATOR_NOT_AVAILABLE, or COORDINATOR_LOAD_IN_PROGRESS while the
shard is being loaded. Clients retry then, whereas they would take a list without its groups as complete.

Differences from Kafka: the bootstrap port, which is no broker, lists the groups of the whole cluster.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse, write_request
from libs.wire.primitives import Writer
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.exchange import WrittenBody
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.groups.split import list_all


async def handle(gateway: GatewayState, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse | WrittenBody:
    writer = Writer()
    write_request(writer, request, context.api_version)
    answer = await list_all(gateway, context, ApiKey.LIST_GROUPS, bytes(writer.buffer))
    return ListGroupsResponse(error_code=answer) if isinstance(answer, int) else answer


SERVED_API: Final = ServedApi(APIS[ApiKey.LIST_GROUPS], handle)
