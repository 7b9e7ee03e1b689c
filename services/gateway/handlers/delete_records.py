"""DeleteRecords (21), versions 0-2. Each partition's leader raises its log start offset.

v1 as v0 · v2 flexible.

An answer without an error means that the new log start is on the disks of all in-sync replicas. The request waits for a partition
without a leader, for its own timeout, at most 5 s. It may be sent twice, since a deletion is idempotent.

Differences from Kafka: the leader is asked wherever it is, where Kafka answers NOT_LEADER_OR_FOLLOWER. Kafka also waits for live
replicas that are not in sync.
"""

from typing import Final

from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.rpc.contracts.storage import (
    DELETE_RECORDS,
    DeletedRecords,
    DeleteRecords,
    DeleteRecordsPartition,
    DeleteRecordsReply,
)
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.leader_requests import LeaderRequest, ask_leaders, error_by_name

TIMEOUT_S_MAX = 5.0
ANSWER_S = 5.0
"""The margin on top of the request's timeout, for the storage node's answer to arrive."""

NO_ANSWER = DeletedRecords(ErrorCode.NOT_LEADER_OR_FOLLOWER)

Key = tuple[str, int]


async def handle(gateway: GatewayState, context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    timeout_s = max(request.timeout_ms, 0) / 1000
    wanted, answers = _split(gateway, request)
    answers |= await ask_leaders(
        gateway,
        {key: (partition.topic_id, partition.partition) for key, partition in wanted.items()},
        LeaderRequest(
            DELETE_RECORDS,
            lambda keys: DeleteRecords(request.timeout_ms, tuple(wanted[key] for key in keys)),
            DeleteRecordsReply,
            is_final=lambda answer: answer.error != ErrorCode.NOT_LEADER_OR_FOLLOWER,
            retry_timeout_s=min(timeout_s, TIMEOUT_S_MAX),
            answer_timeout_s=timeout_s + ANSWER_S,
        ),
    )
    response = DeleteRecordsResponse()
    indexes: dict[str, dict[int, None]] = {}
    for topic in request.topics:  # as in Kafka: none without partitions, and each only once
        for partition in topic.partitions:
            indexes.setdefault(topic.name, {})[partition.partition_index] = None
    for name, topic_request in indexes.items():
        results = [_result(index, answers.get((name, index), NO_ANSWER)) for index in topic_request]
        response.topics.append(DeleteRecordsTopicResult(name, results))
    return response


def _split(
    gateway: GatewayState, request: DeleteRecordsRequest
) -> tuple[dict[Key, DeleteRecordsPartition], dict[Key, DeletedRecords]]:
    """The partitions to send to their leaders, and the answers that need no request. The last mention of a partition counts."""
    image = gateway.image
    wanted: dict[Key, DeleteRecordsPartition] = {}
    answers: dict[Key, DeletedRecords] = {}
    for topic_request in request.topics:
        topic = image.topics.get(topic_request.name)
        for p in topic_request.partitions:
            key = (topic_request.name, p.partition_index)
            if topic is None or not 0 <= p.partition_index < topic.partitions:
                answers[key] = DeletedRecords(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif topic.internal or topic.name in INTERNAL_TOPICS:
                answers[key] = DeletedRecords(ErrorCode.INVALID_TOPIC_EXCEPTION)
            else:
                wanted[key] = DeleteRecordsPartition(bytes.fromhex(topic.topic_id), p.partition_index, p.offset)
    return wanted, answers


def _result(index: int, answer: DeletedRecords) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(index, answer.low_watermark, error_by_name(answer.error))


SERVED_API: Final = ServedApi(APIS[ApiKey.DELETE_RECORDS], handle)
