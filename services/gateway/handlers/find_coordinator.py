"""FindCoordinator (10), versions 0-6.

v1 key types, error message · v3 flexible · v4 many keys in one request · v5 TRANSACTION_ABORTABLE · v6 share groups.

A group's coordinator is the broker id that leads the group's partition of `__consumer_offsets`. A transactional id's is the one
that leads its partition of `__transaction_state`. Without a live leader it is the partition's first live replica. The gateway
behind that id relays to the process that owns the shard, as each other gateway does. The topic is created if it is missing. After
a gateway came or went, a broker may have another address. Then its groups and transactional ids get COORDINATOR_NOT_AVAILABLE
first (services/gateway/peers/moved_endpoints.py says why).

Differences from Kafka: a coordinator that appears within a second, while the topic is created, is in the same answer. There are
no coordinators of share groups: the answer is UNSUPPORTED_VERSION, which clients take as final and show to their users.
"""

import asyncio
from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.group_refusals import error_message
from libs.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from services.gateway.core.coordinator_shards import GROUPS, NO_BROKER, TRANSACTIONS, CoordinatorKind, CoordinatorShards
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.groups.shard_topics import CREATION_S_MAX, create_topic

GROUP, TRANSACTION, SHARE = 0, 1, 2

NO_ERROR = "NONE"
"""Kafka's message where there is no error."""

_KINDS = {GROUP: GROUPS, TRANSACTION: TRANSACTIONS}


async def handle(gateway: GatewayState, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    version = context.api_version
    keys = request.coordinator_keys if version >= 4 else [request.key]
    kind = _KINDS.get(request.key_type)
    if kind is not None:
        await _wait_for_coordinators(gateway, context, kind, keys)
        await gateway.probe_peer_gateways()
        coordinators = [_found(gateway, context, _shards(gateway, kind), key) for key in keys]
    else:
        coordinators = [_of_unserved_type(key, request.key_type, version) for key in keys]
    if version >= 4:
        return FindCoordinatorResponse(coordinators=coordinators)
    (coordinator,) = coordinators
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _shards(gateway: GatewayState, kind: CoordinatorKind) -> CoordinatorShards:
    return gateway.shards if kind is GROUPS else gateway.transaction_shards


async def _wait_for_coordinators(gateway: GatewayState, context: RequestContext, kind: CoordinatorKind, keys: list[str]) -> None:
    """Returns when each key has a coordinator, or when that takes too long."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + CREATION_S_MAX
    if keys and not _shards(gateway, kind).count and not await create_topic(gateway, context, kind):
        return
    while (shards := _shards(gateway, kind)).count and any(shards.owner(shards.of(key)) is None for key in keys):
        left_s = deadline - clock()
        if left_s <= 0 or not await gateway.wait_for_revision(gateway.image.revision + 1, left_s):
            return


def _found(gateway: GatewayState, context: RequestContext, shards: CoordinatorShards, key: str) -> Coordinator:
    shard = shards.of(key)
    node_id = shards.broker(shard)
    address = gateway.broker_endpoint(node_id, context) if node_id != NO_BROKER and shards.owner(shard) is not None else None
    if address is None or gateway.broker_moved(node_id, key, context):
        return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    host, port = address
    return Coordinator(key, node_id, host, port, ErrorCode.NONE, NO_ERROR)


def _of_unserved_type(key: str, key_type: int, version: int) -> Coordinator:
    if key_type != SHARE or version < 6:
        return _no_coordinator(key, ErrorCode.INVALID_REQUEST, f"there is no coordinator of type {key_type}")
    return _no_coordinator(key, ErrorCode.UNSUPPORTED_VERSION, "Penstock has no share groups")


def _no_coordinator(key: str, error: ErrorCode, message: str | None) -> Coordinator:
    return Coordinator(key, NO_BROKER, "", NO_BROKER, error, message)


SERVED_API: Final = ServedApi(APIS[ApiKey.FIND_COORDINATOR], handle)
