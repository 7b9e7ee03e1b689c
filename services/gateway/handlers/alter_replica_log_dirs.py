"""AlterReplicaLogDirs (34), versions 1-2. The storage node behind the addressed broker id moves its replicas.

v2 flexible.

NONE: the replica is in that directory, or is being copied there (DescribeLogDirs shows a future log). REPLICA_NOT_AVAILABLE: the
node has no such replica yet, and will create it in that directory.

Differences from Kafka: on the bootstrap port, which is no broker, any broker is asked. Directories of future replicas are
remembered for existing partitions only, and not for topics that do not exist yet.
"""

from typing import Final

from libs.cluster.records import STORAGE
from libs.rpc.contracts.storage import ALTER_LOG_DIRS, AlterLogDirs, AlterLogDirsReply
from libs.rpc.messages.errors import RpcFailure
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from services.gateway.core.addresses import BOOTSTRAP
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, NodeUnavailable, RequestContext

ANSWER_S = 10.0
NAME_MAX = 255
FUTURE = len(".") + 32 + len("-future")
"""The length of the suffix of a future log's directory: a dot, an id and `-future`."""
NO_TOPIC = bytes(16)

Key = tuple[str, int]


async def handle(
    gateway: GatewayState, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    node_id = context.broker_id
    if node_id == BOOTSTRAP:
        node_id = min(gateway.image.members(STORAGE), default=BOOTSTRAP)
    wanted: dict[Key, str] = {}
    for directory in request.dirs:  # as in Kafka, the last mention of a partition counts
        for topic in directory.topics:
            for index in topic.partitions:
                wanted[topic.name, index] = directory.path
    answers = {key: int(ErrorCode.INVALID_TOPIC_EXCEPTION) for key in wanted if _is_too_long(key)}
    open_keys = [key for key in wanted if key not in answers]
    if open_keys:
        answers |= dict(zip(open_keys, await _ask(gateway, node_id, [(wanted[key], key) for key in open_keys]), strict=True))
    response = AlterReplicaLogDirsResponse()
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for name, index in wanted:
        if name not in results:
            results[name] = AlterReplicaLogDirTopicResult(name)
            response.results.append(results[name])
        results[name].partitions.append(AlterReplicaLogDirPartitionResult(index, answers[name, index]))
    return response


async def _ask(gateway: GatewayState, node_id: int, wanted: list[tuple[str, Key]]) -> list[int]:
    topics = gateway.image.topics
    ids = {name: bytes.fromhex(topics[name].topic_id) if name in topics else NO_TOPIC for _, (name, _) in wanted}
    body = AlterLogDirs(tuple([(path, ids[name], index) for path, (name, index) in wanted]))
    try:
        reply = await gateway.storage(node_id, ALTER_LOG_DIRS, body, AlterLogDirsReply, timeout_s=ANSWER_S)
    except (NodeUnavailable, RpcFailure):
        return [int(ErrorCode.BROKER_NOT_AVAILABLE)] * len(wanted)
    return list(reply.errors)


def _is_too_long(key: Key) -> bool:
    """Whether Kafka has no valid directory name for the partition's future log."""
    name, index = key
    return len(f"{name}-{index}") + FUTURE > NAME_MAX


SERVED_API: Final = ServedApi(APIS[ApiKey.ALTER_REPLICA_LOG_DIRS], handle)
