"""WriteTxnMarkers (27), versions 1-2: an operator ends a hanging transaction, by `kafka-transactions abort` (KIP-664).

v2 the transaction's version (KIP-890). Coordinators write their own markers by RPC (`libs/rpc/contracts/transactions.py`).

A shard of `__consumer_offsets` gets its marker from the group coordinator that owns it.

Differences from Kafka: the leader is asked wherever it is, where Kafka answers NOT_LEADER_OR_FOLLOWER. No other internal topic
has transactions: it answers INVALID_TOPIC_EXCEPTION.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from libs.cluster.topic_names import GROUP_TOPIC
from libs.rpc.contracts.storage import Appended, AppendReply
from libs.rpc.contracts.transactions import WRITE_GROUP_MARKERS, WRITE_MARKERS, Marker, WriteMarkers
from libs.rpc.messages.errors import RpcFailure
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, NodeUnavailable, RequestContext
from services.gateway.peers.leader_requests import LeaderRequest, ask_leaders, error_by_name

TIMEOUT_S: Final = 5.0
NO_SHARD, NO_NUMBER = -1, 0
FIRST_THAT_RAISES_EPOCHS: Final = 2
"""`transaction.version`, not that of the API."""
ASKED_AGAIN: Final = frozenset((int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.INVALID_REQUEST)))
"""The leader has moved, or this gateway's leader epoch is an old one."""

Key = tuple[int, str, int]
"""The marker's place in the request, the topic and the partition index."""


async def handle(gateway: GatewayState, context: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    image = gateway.image
    wanted: dict[Key, tuple[bytes, int]] = {}
    for place, marker in enumerate(request.markers):
        for asked in marker.topics:
            topic = image.topics.get(asked.name)
            for index in asked.partition_indexes:
                if topic is not None and 0 <= index < topic.partitions:
                    wanted[place, asked.name, index] = bytes.fromhex(topic.topic_id), index

    def body(keys: list[Key]) -> WriteMarkers:
        markers = tuple(_marker(gateway, request.markers[key[0]], key[1], *wanted[key]) for key in keys)
        return WriteMarkers(NO_NUMBER, int(TIMEOUT_S * 1000), markers)

    of_groups: dict[int, list[Key]] = {}
    for key in wanted:
        if key[1] == GROUP_TOPIC:
            of_groups.setdefault(key[2], []).append(key)
    answers = await ask_leaders(
        gateway,
        {key: partition for key, partition in wanted.items() if key[1] != GROUP_TOPIC},
        LeaderRequest(
            WRITE_MARKERS,
            body,
            AppendReply,
            is_final=lambda answer: answer.error not in ASKED_AGAIN,
            retry_timeout_s=TIMEOUT_S,
        ),
    )
    asking = [_ask_group_coordinator(gateway, shard, body(keys)) for shard, keys in of_groups.items()]
    for keys, answered in zip(of_groups.values(), await asyncio.gather(*asking), strict=True):
        answers.update(zip(keys, answered, strict=False))
    return WriteTxnMarkersResponse([_result(place, marker, wanted, answers) for place, marker in enumerate(request.markers)])


async def _ask_group_coordinator(gateway: GatewayState, shard: int, body: WriteMarkers) -> Sequence[Appended]:
    """The answers; none if the owner of the shard gave none."""
    try:
        reply = await gateway.group_coordinator(shard, WRITE_GROUP_MARKERS, body, AppendReply, timeout_s=TIMEOUT_S)
    except (NodeUnavailable, RpcFailure):
        return ()
    return reply.partitions


def _marker(gateway: GatewayState, marker: WritableTxnMarker, topic: str, topic_id: bytes, index: int) -> Marker:
    state = gateway.image.partition(topic_id, index)
    epoch = -1
    if state is not None:
        epoch = state.owner_epoch if topic == GROUP_TOPIC else state.leader_epoch
    return Marker(
        topic_id,
        index,
        epoch,
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.transaction_version >= FIRST_THAT_RAISES_EPOCHS,
        NO_SHARD,
        marker.coordinator_epoch,
    )


def _result(
    place: int, marker: WritableTxnMarker, wanted: dict[Key, tuple[bytes, int]], answers: dict[Key, Appended]
) -> WritableTxnMarkerResult:
    topics = []
    for topic in marker.topics:
        results = [
            WritableTxnMarkerPartitionResult(index, _error((place, topic.name, index), wanted, answers))
            for index in topic.partition_indexes
        ]
        topics.append(WritableTxnMarkerTopicResult(topic.name, results))
    return WritableTxnMarkerResult(marker.producer_id, topics)


def _error(key: Key, wanted: dict[Key, tuple[bytes, int]], answers: dict[Key, Appended]) -> int:
    if key not in wanted:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = answers.get(key)
    if answer is None or answer.error in ASKED_AGAIN:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if answer.error == ErrorCode.INVALID_TXN_STATE:  # Kafka's for a marker whose epoch is not above its transaction's
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error_by_name(answer.error)


SERVED_API: Final = ServedApi(APIS[ApiKey.WRITE_TXN_MARKERS], handle)
