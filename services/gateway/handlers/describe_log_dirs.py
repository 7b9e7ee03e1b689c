"""DescribeLogDirs (35), versions 1-4. The storage node behind the addressed broker id answers.

v2 flexible · v3 a top-level error code · v4 total and usable bytes.

A log that is being moved to another directory is listed in both: there as a future log, with its missing offsets as lag.

Differences from Kafka: on the bootstrap port, which is no broker, any broker is described.
"""

from typing import Final

from libs.cluster.records import STORAGE
from libs.rpc.contracts.storage import DESCRIBE_LOG_DIRS, DescribeLogDirs, LogDir, LogDirsReply
from libs.rpc.messages.errors import RpcFailure
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from services.gateway.core.addresses import BOOTSTRAP
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, NodeUnavailable, RequestContext

ANSWER_S = 10.0


async def handle(gateway: GatewayState, context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    image = gateway.image
    node_id = context.broker_id
    if node_id == BOOTSTRAP:
        node_id = min(image.members(STORAGE), default=BOOTSTRAP)
    wanted = None
    if request.topics is not None:
        requested = (
            (image.topics[topic_request.topic], topic_request.partitions)
            for topic_request in request.topics
            if topic_request.topic in image.topics
        )
        wanted = tuple((bytes.fromhex(topic.topic_id), index) for topic, indexes in requested for index in indexes)
    try:
        reply = await gateway.storage(node_id, DESCRIBE_LOG_DIRS, DescribeLogDirs(wanted), LogDirsReply, timeout_s=ANSWER_S)
    except (NodeUnavailable, RpcFailure):
        return DescribeLogDirsResponse(error_code=ErrorCode.BROKER_NOT_AVAILABLE)
    return DescribeLogDirsResponse(results=[_result(directory) for directory in reply.directories])


def _result(directory: LogDir) -> DescribeLogDirsResult:
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for log in directory.logs:
        described = DescribeLogDirsPartition(log.partition, log.size, log.lag, log.is_future)
        topics.setdefault(log.topic, []).append(described)
    return DescribeLogDirsResult(
        directory.error,
        directory.path,
        [DescribeLogDirsTopic(name, partitions) for name, partitions in topics.items()],
        directory.total_bytes,
        directory.usable_bytes,
    )


SERVED_API: Final = ServedApi(APIS[ApiKey.DESCRIBE_LOG_DIRS], handle)
