"""InitProducerId (22), versions 0-5 (6 is unstable in Kafka 4.2, which does not advertise it either).

v2 flexible · v3 the producer's present id and epoch (KIP-360) · v4 PRODUCER_FENCED · v5 TRANSACTION_ABORTABLE.

An idempotent producer gets an unused id from the gateway's blocks. An empty transactional id answers INVALID_REQUEST. A
transaction timeout out of bounds answers INVALID_TRANSACTION_TIMEOUT.

There are no transactions yet, so a transactional id answers NOT_COORDINATOR. Kafka does so for an id that FindCoordinator was not
asked about. Clients call FindCoordinator first, and its answer tells them why they get no coordinator.
"""

from libs.cluster.configs.resolve import effective_broker_int
from libs.rpc.errors import RpcFailure
from libs.wire.errors import ErrorCode
from libs.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from services.gateway.exchange.request_context import ControllerUnavailable, GatewayState, RequestContext

NONE = -1


async def handle(gateway: GatewayState, context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if (error := _refusal(gateway, request)) is not None:
        return _refused(error)
    try:
        producer_id = await gateway.next_producer_id()
    except (RpcFailure, ControllerUnavailable):
        # Kafka's answer while it waits for a block of ids. Clients retry.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refusal(gateway: GatewayState, request: InitProducerIdRequest) -> ErrorCode | None:
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return None
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    longest = effective_broker_int(gateway.image, "transaction.max.timeout.ms")
    if not 0 < request.transaction_timeout_ms <= longest:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NOT_COORDINATOR


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NONE, producer_epoch=NONE)
