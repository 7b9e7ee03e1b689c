"""OffsetForLeaderEpoch (23), versions 2-4: where an epoch ends in the leader's log, for consumers that validate their position.

v2 current leader epoch, throttle time · v3 replica id · v4 flexible.

A consumer that learns of a new leader asks for the end of its last record's epoch. If that end is before its position, records
that it has read are gone, or were never committed (KIP-320). The request waits for a partition without a leader.

Differences from Kafka: the leader is asked wherever it is, where Kafka answers NOT_LEADER_OR_FOLLOWER. A partition that is named
twice is answered once. Followers use an RPC instead, so a replica id changes nothing.
"""

from typing import Final

from libs.rpc.contracts.storage import END_OF_EPOCH, EndOfEpoch, EndOfEpochReply, EpochEnd, EpochPartition
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.leader_requests import LeaderRequest, ask_leaders, error_by_name

TIMEOUT_S = 5.0

NO_ANSWER = EpochEnd(ErrorCode.NOT_LEADER_OR_FOLLOWER)

Key = tuple[str, int]


async def handle(
    gateway: GatewayState, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    image = gateway.image
    wanted: dict[Key, EpochPartition] = {}
    answers: dict[Key, EpochEnd] = {}
    for topic_request in request.topics:
        topic = image.topics.get(topic_request.topic)
        for p in topic_request.partitions:
            key = (topic_request.topic, p.partition)
            if topic is None or not 0 <= p.partition < topic.partitions:
                answers[key] = EpochEnd(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                topic_id = bytes.fromhex(topic.topic_id)
                wanted[key] = EpochPartition(topic_id, p.partition, p.leader_epoch, p.current_leader_epoch)

    answers |= await ask_leaders(
        gateway,
        {key: (partition.topic_id, partition.partition) for key, partition in wanted.items()},
        LeaderRequest(
            END_OF_EPOCH,
            lambda keys: EndOfEpoch(tuple(wanted[key] for key in keys)),
            EndOfEpochReply,
            is_final=lambda answer: answer.error != ErrorCode.NOT_LEADER_OR_FOLLOWER,
            retry_timeout_s=TIMEOUT_S,
        ),
    )
    response = OffsetForLeaderEpochResponse()
    indexes: dict[str, dict[int, None]] = {}
    for topic_request in request.topics:  # as in Kafka, a topic without partitions is mentioned, too
        indexes.setdefault(topic_request.topic, {}).update({p.partition: None for p in topic_request.partitions})
    for name, of_topic in indexes.items():
        results = [_result(index, answers.get((name, index), NO_ANSWER)) for index in of_topic]
        response.topics.append(OffsetForLeaderTopicResult(name, results))
    return response


def _result(index: int, answer: EpochEnd) -> EpochEndOffset:
    return EpochEndOffset(error_by_name(answer.error), index, answer.leader_epoch, answer.end_offset)


SERVED_API: Final = ServedApi(APIS[ApiKey.OFFSET_FOR_LEADER_EPOCH], handle)
