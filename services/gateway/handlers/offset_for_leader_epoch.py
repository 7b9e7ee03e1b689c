"""OffsetForLeaderEpoch (23), versions 2-4: where an epoch ends in the leader's log, for consumers that validate their position.

v2 current leader epoch, throttle time · v3 replica id · v4 flexible.

A consumer that hears of another leader asks for the end of the epoch of the last record that it has: if that is before its
position, records that it has read are gone, or were never committed (KIP-320). A leader that is gone is waited for.

Differences from Kafka: Kafka answers NOT_LEADER_OR_FOLLOWER for what another broker leads; we ask that one. A partition that is
named twice is answered once. Followers ask by RPC, so a replica id changes nothing.
"""

from libs.rpc.contracts.storage import END_OF_EPOCH, EndOfEpoch, EndOfEpochReply, EpochEnd, EpochPartition
from libs.wire.errors import ErrorCode
from libs.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from services.gateway.leaders import ask_leaders, error_by_name
from services.gateway.state import GatewayState, RequestContext

PATIENCE_S = 5.0

NOBODY = EpochEnd(ErrorCode.NOT_LEADER_OR_FOLLOWER)

Key = tuple[str, int]


async def handle(
    gateway: GatewayState, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    image = gateway.image
    wanted: dict[Key, EpochPartition] = {}
    answers: dict[Key, EpochEnd] = {}
    for asked in request.topics:
        topic = image.topics.get(asked.topic)
        for p in asked.partitions:
            key = (asked.topic, p.partition)
            if topic is None or not 0 <= p.partition < topic.partitions:
                answers[key] = EpochEnd(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                topic_id = bytes.fromhex(topic.topic_id)
                wanted[key] = EpochPartition(topic_id, p.partition, p.leader_epoch, p.current_leader_epoch)

    answers |= await ask_leaders(
        gateway,
        {key: (partition.topic_id, partition.partition) for key, partition in wanted.items()},
        END_OF_EPOCH,
        lambda keys: EndOfEpoch(tuple(wanted[key] for key in keys)),
        EndOfEpochReply,
        is_final=lambda answer: answer.error != ErrorCode.NOT_LEADER_OR_FOLLOWER,
        patience_s=PATIENCE_S,
    )
    response = OffsetForLeaderEpochResponse()
    indexes: dict[str, dict[int, None]] = {}
    for asked in request.topics:  # as in Kafka, also one without partitions is mentioned
        indexes.setdefault(asked.topic, {}).update({p.partition: None for p in asked.partitions})
    for name, of_topic in indexes.items():
        found = [_result(index, answers.get((name, index), NOBODY)) for index in of_topic]
        response.topics.append(OffsetForLeaderTopicResult(name, found))
    return response


def _result(index: int, answer: EpochEnd) -> EpochEndOffset:
    return EpochEndOffset(error_by_name(answer.error), index, answer.leader_epoch, answer.end_offset)
