"""AddOffsetsToTxn (25), versions 0-4. The transactional id's coordinator decides, and its answer is relayed unchanged.

v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE (KIP-890).

The coordinator adds the group's partition of `__consumer_offsets`. A producer may ask before any consumer has looked for its
group's coordinator. So the topic is created here if it is missing, and the client asks again.

A request that was sent and not answered is not sent again: it could begin the client's next transaction.

Differences from Kafka: any broker id accepts it, wherever the transactional id's coordinator is.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from libs.wire.primitives import Reader
from services.gateway.core.coordinator_shards import GROUPS
from services.gateway.data_path.data_path import DataPath
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.exchange import Exchange
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.groups.shard_topics import create_topic
from services.gateway.shortcuts import relay_shortcut


def begin(data_path: DataPath, exchange: Exchange, reader: Reader) -> bool:
    """Relays the request. False: there is no `__consumer_offsets` yet. Raises ProtocolError."""
    return bool(data_path.coordinators.shards.count) and relay_shortcut.begin_request(data_path, exchange, reader)


async def handle(gateway: GatewayState, context: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    if not gateway.shards.count:
        await create_topic(gateway, context, GROUPS)
    return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


SERVED_API: Final = ServedApi(APIS[ApiKey.ADD_OFFSETS_TO_TXN], handle, begin=begin)
