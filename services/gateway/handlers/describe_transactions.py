"""DescribeTransactions (65), version 0 (KIP-664). The transactional ids' coordinators answer, in the order of the ids.

Differences from Kafka: any broker id accepts it, wherever the ids' coordinators are.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
    read_response,
    write_request,
)
from libs.wire.transaction_refusals import describe_one
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.groups import relay
from services.gateway.groups.split import MultiGroupApi, ask_each


async def handle(
    gateway: GatewayState, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    api: MultiGroupApi[str, TransactionState] = MultiGroupApi(
        ApiKey.DESCRIBE_TRANSACTIONS,
        write_request,
        read_response,
        str,
        DescribeTransactionsRequest,
        lambda response: list(response.transaction_states),
        describe_one,
    )
    return DescribeTransactionsResponse(transaction_states=await ask_each(gateway, context, api, request.transactional_ids))


SERVED_API: Final = ServedApi(APIS[ApiKey.DESCRIBE_TRANSACTIONS], handle, begin=relay.begin_single_group_request)
