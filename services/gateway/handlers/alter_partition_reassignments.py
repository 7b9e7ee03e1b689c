"""AlterPartitionReassignments (45), versions 0-1. The controller decides.

v1 allow_replication_factor_change.

Differences from Kafka: none known.
"""

from typing import Final

from libs.rpc.contracts.controller import ALTER_REASSIGNMENTS, AlterReassignments, AlterReassignmentsReply, Reassignment
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.controller_requests import RequestFailed, ask


async def handle(
    gateway: GatewayState, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    wanted = tuple(
        Reassignment(topic.name, partition.partition_index, None if partition.replicas is None else tuple(partition.replicas))
        for topic in request.topics
        for partition in topic.partitions
    )
    response = AlterPartitionReassignmentsResponse(allow_replication_factor_change=request.allow_replication_factor_change)
    body = AlterReassignments(wanted, request.allow_replication_factor_change)
    try:
        reply = await ask(gateway, context, ALTER_REASSIGNMENTS, body, AlterReassignmentsReply, request.timeout_ms)
    except RequestFailed as failure:
        response.error_code, response.error_message = failure.error, failure.message
        return response
    results = iter(reply.partitions)
    for topic in request.topics:
        done = [next(results) for _ in topic.partitions]
        partitions = [ReassignablePartitionResponse(result.partition, result.error, result.message) for result in done]
        response.responses.append(ReassignableTopicResponse(topic.name, partitions))
    return response


SERVED_API: Final = ServedApi(APIS[ApiKey.ALTER_PARTITION_REASSIGNMENTS], handle)
