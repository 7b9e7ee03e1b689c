"""DeleteTopics (20), versions 1-6. The controller decides.

v4 flexible · v5 error messages, and what is beyond the client's `controller_mutation_rate` is refused (KIP-599), and done in the
versions before · v6 by name or by id.

Differences from Kafka: a topic that is named by its id and once more by its name is answered twice.
"""

from typing import Final

from libs.cluster.configs.resolve import effective_broker_bool
from libs.rpc.contracts.controller import DELETE_TOPICS, DeleteTopics, TopicRef, TopicResult, TopicsReply
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.controller_requests import RequestFailed, ask, mutating_client

FIRST_WITH_DELETION_DISABLED = 3
FIRST_STRICT = 5
FIRST_BY_ID = 6


async def handle(gateway: GatewayState, context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    if context.api_version >= FIRST_BY_ID:
        refs = tuple(TopicRef(topic.name, topic.topic_id) for topic in request.topics)
    else:
        refs = tuple(TopicRef(name) for name in request.topic_names)
    if not refs:
        return DeleteTopicsResponse()
    if context.api_version < FIRST_WITH_DELETION_DISABLED and not effective_broker_bool(gateway.image, "delete.topic.enable"):
        # These versions do not know TOPIC_DELETION_DISABLED.
        refused = [DeletableTopicResult(ref.name, ref.topic_id, ErrorCode.INVALID_REQUEST) for ref in refs]
        return DeleteTopicsResponse(responses=refused)
    client = mutating_client(context, strict=context.api_version >= FIRST_STRICT)
    try:
        reply = await ask(gateway, context, DELETE_TOPICS, DeleteTopics(refs, client=client), TopicsReply, request.timeout_ms)
    except RequestFailed as failure:
        failed = [DeletableTopicResult(ref.name, ref.topic_id, failure.error, failure.message) for ref in refs]
        return DeleteTopicsResponse(responses=failed)
    by_name_only = context.api_version < FIRST_BY_ID
    responses = [_result(result, by_name_only) for result in reply.topics]
    return DeleteTopicsResponse(throttle_time_ms=reply.throttle_ms, responses=responses)


def _result(result: TopicResult, by_name_only: bool) -> DeletableTopicResult:
    # The result for an unknown id has no name. Only versions that delete by id can express that.
    by_name = by_name_only or result.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # an unknown id would be UNKNOWN_TOPIC_ID
    name = result.name if result.name or by_name else None
    return DeletableTopicResult(name, result.topic_id, result.error, result.message)


SERVED_API: Final = ServedApi(APIS[ApiKey.DELETE_TOPICS], handle)
