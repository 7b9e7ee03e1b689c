"""DeleteRecords (21), versions 0-2. Each partition's leader makes its log start later.

v1 as v0 · v2 flexible.

An answer without an error means that the start is on the disks of all replicas in sync. A leader that is gone is waited for, at
most for the request's timeout and 5 s: a deletion may be asked for twice.

Differences from Kafka: Kafka answers NOT_LEADER_OR_FOLLOWER for what another broker leads; we ask that one. Kafka also waits
for live replicas that are not in sync.
"""

from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.rpc.contracts.storage import (
    DELETE_RECORDS,
    DeletedRecords,
    DeleteRecords,
    DeleteRecordsPartition,
    DeleteRecordsReply,
)
from libs.wire.errors import ErrorCode
from libs.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from services.gateway.leaders import ask_leaders, error_by_name
from services.gateway.state import GatewayState, RequestContext

PATIENCE_S_MAX = 5.0
ANSWER_S = 5.0
"""How much longer than the storage node itself may take, by the request's timeout, its answer may be on its way."""

NOBODY = DeletedRecords(ErrorCode.NOT_LEADER_OR_FOLLOWER)

Key = tuple[str, int]


async def handle(gateway: GatewayState, context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    timeout_s = max(request.timeout_ms, 0) / 1000
    wanted, answers = _sort_out(gateway, request)
    answers |= await ask_leaders(
        gateway,
        {key: (partition.topic_id, partition.partition) for key, partition in wanted.items()},
        DELETE_RECORDS,
        lambda keys: DeleteRecords(request.timeout_ms, tuple(wanted[key] for key in keys)),
        DeleteRecordsReply,
        is_final=lambda answer: answer.error != ErrorCode.NOT_LEADER_OR_FOLLOWER,
        patience_s=min(timeout_s, PATIENCE_S_MAX),
        answer_s=timeout_s + ANSWER_S,
    )
    response = DeleteRecordsResponse()
    indexes: dict[str, dict[int, None]] = {}
    for topic in request.topics:  # as in Kafka, one without partitions is not mentioned, and one that is named twice only once
        for partition in topic.partitions:
            indexes.setdefault(topic.name, {})[partition.partition_index] = None
    for name, asked in indexes.items():
        found = [_result(index, answers.get((name, index), NOBODY)) for index in asked]
        response.topics.append(DeleteRecordsTopicResult(name, found))
    return response


def _sort_out(
    gateway: GatewayState, request: DeleteRecordsRequest
) -> tuple[dict[Key, DeleteRecordsPartition], dict[Key, DeletedRecords]]:
    """What to ask, and the answers that need no asking. Of a partition that is named twice the last mention counts."""
    image = gateway.image
    wanted: dict[Key, DeleteRecordsPartition] = {}
    answers: dict[Key, DeletedRecords] = {}
    for asked in request.topics:
        topic = image.topics.get(asked.name)
        for p in asked.partitions:
            key = (asked.name, p.partition_index)
            if topic is None or not 0 <= p.partition_index < topic.partitions:
                answers[key] = DeletedRecords(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif topic.internal or topic.name in INTERNAL_TOPICS:
                answers[key] = DeletedRecords(ErrorCode.INVALID_TOPIC_EXCEPTION)
            else:
                wanted[key] = DeleteRecordsPartition(bytes.fromhex(topic.topic_id), p.partition_index, p.offset)
    return wanted, answers


def _result(index: int, answer: DeletedRecords) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(index, answer.low_watermark, error_by_name(answer.error))
