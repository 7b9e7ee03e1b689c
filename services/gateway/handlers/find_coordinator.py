"""FindCoordinator (10), versions 0-6.

v1 key types, error message · v3 flexible · v4 many keys in one request · v5 TRANSACTION_ABORTABLE · v6 share groups.

A group's coordinator is the broker id that leads the partition of `__consumer_offsets` to which the group belongs; if nobody that
lives leads it, the first of its replicas that lives. The gateway behind it relays to the process that owns the shard, as does
any other gateway. The topic is made where it is missing. After a gateway came or went, a group is first told that there is none
where its broker has another address now (services/gateway/moves.py says why).

Differences from Kafka: a coordinator that is there within a second, the topic being made meanwhile, is in the same answer. There
are no coordinators of transactions and share groups, and nobody is found. From version 3 on the answer is UNSUPPORTED_VERSION,
which clients take for final and show to their users. librdkafka stays below, and asks for a transaction's coordinator again for
ever unless the id is not authorised, so transactions answer TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
"""

import asyncio

from libs.cluster.topic_names import GROUP_TOPIC
from libs.rpc.contracts.controller import CREATE_INTERNAL_TOPIC, CreateInternalTopic, TopicsReply
from libs.wire.errors import ErrorCode
from libs.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from services.gateway.controller_calls import NotDone, ask
from services.gateway.refusals import words
from services.gateway.state import GatewayState, RequestContext

GROUP, TRANSACTION, SHARE = 0, 1, 2
NOBODY = -1

APPEARANCE_S_MAX = 1.0
"""For so long a coordinator that is not there yet is waited for."""

FOUND = "NONE"
"""What Kafka says where there is no error."""

_UNSERVED = {
    TRANSACTION: "Penstock has no transaction coordinators yet",
    SHARE: "Penstock has no share groups",
}


async def handle(gateway: GatewayState, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    version = context.api_version
    keys = request.coordinator_keys if version >= 4 else [request.key]
    if request.key_type == GROUP:
        await _appearance(gateway, keys)
        await gateway.ask_neighbours()
        found = [_of_group(gateway, context, key) for key in keys]
    else:
        found = [_of_nothing(key, request.key_type, version) for key in keys]
    if version >= 4:
        return FindCoordinatorResponse(coordinators=found)
    (one,) = found
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=one.error_message, node_id=one.node_id, host=one.host, port=one.port
    )


async def _appearance(gateway: GatewayState, keys: list[str]) -> None:
    """Returns when each key has a coordinator, or it takes too long."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + APPEARANCE_S_MAX
    if keys and not gateway.shards.count:
        request = CreateInternalTopic(GROUP_TOPIC)
        try:
            await ask(gateway, CREATE_INTERNAL_TOPIC, request, TopicsReply, int(APPEARANCE_S_MAX * 1000))
        except NotDone:
            return
    while (shards := gateway.shards).count and any(shards.owner(shards.of(key)) is None for key in keys):
        left_s = deadline - clock()
        if left_s <= 0 or not await gateway.wait_for_revision(gateway.image.revision + 1, left_s):
            return


def _of_group(gateway: GatewayState, context: RequestContext, key: str) -> Coordinator:
    shards = gateway.shards
    shard = shards.of(key)
    node_id = shards.broker(shard)
    address = gateway.broker_endpoint(node_id, context) if node_id != NOBODY and shards.owner(shard) is not None else None
    if address is None or gateway.broker_moved(node_id, key, context):
        return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, words(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    return Coordinator(key, node_id, *address, ErrorCode.NONE, FOUND)


def _of_nothing(key: str, key_type: int, version: int) -> Coordinator:
    if key_type not in _UNSERVED or (key_type == SHARE and version < 6):
        return _nobody(key, ErrorCode.INVALID_REQUEST, f"there is no coordinator of type {key_type}")
    final = ErrorCode.UNSUPPORTED_VERSION if version >= 3 else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return _nobody(key, final, _UNSERVED[key_type])


def _nobody(key: str, error: ErrorCode, said: str | None) -> Coordinator:
    return Coordinator(key, NOBODY, "", NOBODY, error, said)
