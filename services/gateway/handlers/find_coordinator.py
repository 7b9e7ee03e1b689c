"""FindCoordinator (10), versions 0-6.

v1 key types, error message · v3 flexible · v4 many keys in one request · v5 TRANSACTION_ABORTABLE · v6 share groups.

It is served although there are no coordinators yet: librdkafka compresses with lz4 only for brokers that have it.

Differences from Kafka: nobody is ever found. From version 3 on the answer is UNSUPPORTED_VERSION, which clients take for final
and show to their users. librdkafka stays below and needs others. It asks for each consumer that merely has a group.id, and would
hand an error to those that only assign() partitions, so groups answer COORDINATOR_NOT_AVAILABLE. It asks for a transaction's
coordinator again for ever unless the id is not authorised, so transactions answer TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
"""

from libs.wire.errors import ErrorCode
from libs.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from services.gateway.state import GatewayState, RequestContext

GROUP, TRANSACTION, SHARE = 0, 1, 2
NOBODY = -1

_WORDS = {
    GROUP: "Penstock has no group coordinators yet: assign() partitions instead",
    TRANSACTION: "Penstock has no transaction coordinators yet",
    SHARE: "Penstock has no share groups",
}

_BEFORE_VERSION_3 = {
    GROUP: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


async def handle(gateway: GatewayState, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    version = context.api_version
    error, words = _answer(request.key_type, version)
    if version >= 4:
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key, NOBODY, "", NOBODY, error, words) for key in request.coordinator_keys]
        )
    return FindCoordinatorResponse(error_code=error, error_message=words, node_id=NOBODY, host="", port=NOBODY)


def _answer(key_type: int, version: int) -> tuple[ErrorCode, str]:
    if key_type not in _WORDS or (key_type == SHARE and version < 6):
        return ErrorCode.INVALID_REQUEST, f"there is no coordinator of type {key_type}"
    error = ErrorCode.UNSUPPORTED_VERSION if version >= 3 else _BEFORE_VERSION_3[key_type]
    return error, _WORDS[key_type]
