"""CreatePartitions (37), versions 0-3. The controller decides.

v2 flexible · v3 what is beyond the client's `controller_mutation_rate` is refused (KIP-599), and done in the versions before.

Differences from Kafka: too many partitions answer POLICY_VIOLATION.
"""

from collections.abc import Sequence
from typing import Final

from libs.rpc.contracts.controller import (
    CREATE_PARTITIONS,
    CreatePartitions,
    MorePartitions,
    TopicResult,
    TopicsReply,
)
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.controller_requests import RequestFailed, ask, mutating_client

FIRST_STRICT = 3


async def handle(gateway: GatewayState, context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    client = mutating_client(context, strict=context.api_version >= FIRST_STRICT)
    wanted = CreatePartitions(tuple(_more(topic) for topic in request.topics), request.validate_only, client=client)
    results: Sequence[TopicResult]
    throttle_ms = 0
    try:
        reply = await ask(gateway, context, CREATE_PARTITIONS, wanted, TopicsReply, request.timeout_ms)
        results, throttle_ms = reply.topics, reply.throttle_ms
    except RequestFailed as failure:
        results = [TopicResult(name, failure.error, failure.message) for name in dict.fromkeys(t.name for t in request.topics)]
    answers = [CreatePartitionsTopicResult(r.name, r.error, r.message) for r in results]
    return CreatePartitionsResponse(throttle_time_ms=throttle_ms, results=answers)


def _more(topic: CreatePartitionsTopic) -> MorePartitions:
    assignments = None
    if topic.assignments is not None:
        assignments = tuple(tuple(assignment.broker_ids) for assignment in topic.assignments)
    return MorePartitions(topic.name, topic.count, assignments)


SERVED_API: Final = ServedApi(APIS[ApiKey.CREATE_PARTITIONS], handle)
