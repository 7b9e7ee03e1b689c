"""InitProducerId (22), versions 0-5 (6 is unstable in Kafka 4.2, which does not advertise it either).

v2 flexible · v3 the producer's present id and epoch (KIP-360) · v4 PRODUCER_FENCED · v5 TRANSACTION_ABORTABLE.

An idempotent producer gets an unused id from the gateway's blocks. An empty transactional id answers INVALID_REQUEST. For any
other the coordinator of the transactional id decides, and its answer is relayed unchanged.
"""

from typing import Final

from libs.cluster.configs.resolve import effective_broker_int
from libs.cluster.image import ClusterImage
from libs.rpc.messages.errors import RpcFailure
from libs.wire.api_keys import ApiKey, is_flexible
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from libs.wire.primitives import Reader
from services.gateway.data_path.data_path import DataPath
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.exchange import Exchange
from services.gateway.exchange.request_context import ControllerUnavailable, GatewayState, RequestContext
from services.gateway.shortcuts import relay_shortcut

NONE = -1


def begin(data_path: DataPath, exchange: Exchange, reader: Reader) -> bool:
    """Relays a request that names a transactional id. False: it names none, or its timeout is out of bounds, which Kafka finds
    before it looks for the coordinator. Raises ProtocolError."""
    ahead = Reader(reader.view, reader.position)
    if not ahead.nullable_string(is_flexible(ApiKey.INIT_PRODUCER_ID, exchange.api_version)):
        return False
    if not _is_timeout(data_path.routes.image, ahead.int32()):
        return False
    return relay_shortcut.begin_request(data_path, exchange, reader)


async def handle(gateway: GatewayState, context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if request.transactional_id and not _is_timeout(gateway.image, request.transaction_timeout_ms):
        return _refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    if (request.producer_id == NONE) != (request.producer_epoch == NONE) or request.transactional_id is not None:
        return _refused(ErrorCode.INVALID_REQUEST)
    try:
        producer_id = await gateway.next_producer_id()
    except (RpcFailure, ControllerUnavailable):
        # Kafka's answer while it waits for a block of ids. Clients retry.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _is_timeout(image: ClusterImage, timeout_ms: int) -> bool:
    return 0 < timeout_ms <= effective_broker_int(image, "transaction.max.timeout.ms")


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NONE, producer_epoch=NONE)


SERVED_API: Final = ServedApi(APIS[ApiKey.INIT_PRODUCER_ID], handle, begin=begin)
