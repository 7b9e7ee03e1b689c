"""AddPartitionsToTxn (24), versions 0-5. The transactional ids' coordinators decide, and the answer of one is relayed unchanged.

v2 PRODUCER_FENCED · v3 flexible · v4 several transactions, verify_only, a top-level error · v5 what leaders add for clients of
`transaction.version` 2 (KIP-890).

In Kafka brokers send versions 4 and 5 to each other, and users need ClusterAction. Storage nodes ask coordinators themselves
(`libs/rpc/contracts/transactions.py`). Without an authorizer everybody has ClusterAction, as in Kafka.

A request that was sent and not answered is not sent again: it could begin the client's next transaction. The client gets
NOT_COORDINATOR, and asks again itself.

Differences from Kafka: any broker id accepts it, wherever the transactional ids' coordinators are. A request about no transaction
is answered, where Kafka does not.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
    read_response,
    write_request,
)
from libs.wire.primitives import Reader
from libs.wire.transaction_refusals import FIRST_WITH_SEVERAL_TRANSACTIONS, added_to_one
from services.gateway.data_path.data_path import DataPath
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.exchange import Exchange
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.groups import relay
from services.gateway.groups.split import MultiGroupApi, ask_each
from services.gateway.shortcuts import relay_shortcut


def begin(data_path: DataPath, exchange: Exchange, reader: Reader) -> bool:
    if exchange.api_version >= FIRST_WITH_SEVERAL_TRANSACTIONS:
        return relay.begin_single_group_request(data_path, exchange, reader)
    return relay_shortcut.begin_request(data_path, exchange, reader)


async def handle(
    gateway: GatewayState, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    api: MultiGroupApi[AddPartitionsToTxnTransaction, AddPartitionsToTxnResult] = MultiGroupApi(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        write_request,
        read_response,
        lambda transaction: transaction.transactional_id,
        lambda transactions: AddPartitionsToTxnRequest(transactions=transactions),
        lambda response: list(response.results_by_transaction),
        added_to_one,
    )
    return AddPartitionsToTxnResponse(results_by_transaction=await ask_each(gateway, context, api, request.transactions))


SERVED_API: Final = ServedApi(APIS[ApiKey.ADD_PARTITIONS_TO_TXN], handle, begin=begin)
