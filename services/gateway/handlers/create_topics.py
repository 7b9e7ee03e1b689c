"""CreateTopics (19), versions 2-7. The controller decides, with Kafka's codes and messages.

v4 -1 for the default counts · v5 flexible, and the answer shows counts and configs · v6 what is beyond the client's
`controller_mutation_rate` is refused (KIP-599), and done in the versions before · v7 topic id.

Differences from Kafka: a config that Kafka accepts and Penstock does not support yet is refused with INVALID_CONFIG, never
ignored. Of two new topics in one request whose names collide, the second is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from libs.cluster.configs.describe import describe_topic
from libs.cluster.image import ClusterImage
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.controller import CREATE_TOPICS, CreateTopics, NewTopic, TopicResult, TopicsReply
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.controller_requests import RequestFailed, ask, mutating_client

FIRST_STRICT = 6


async def handle(gateway: GatewayState, context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    client = mutating_client(context, strict=context.api_version >= FIRST_STRICT)
    wanted = CreateTopics(tuple(_new_topic(topic) for topic in request.topics), request.validate_only, client=client)
    results: Sequence[TopicResult]
    throttle_ms = 0
    try:
        reply = await ask(gateway, context, CREATE_TOPICS, wanted, TopicsReply, request.timeout_ms)
        results, throttle_ms = reply.topics, reply.throttle_ms
    except RequestFailed as failure:
        results = [TopicResult(name, failure.error, failure.message) for name in dict.fromkeys(t.name for t in request.topics)]
    by_name = {topic.name: topic for topic in request.topics}
    answers = [_result(gateway.image, result, by_name.get(result.name)) for result in results]
    return CreateTopicsResponse(throttle_time_ms=throttle_ms, topics=answers)


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((assignment.partition_index, tuple(assignment.broker_ids)) for assignment in topic.assignments),
        tuple((config.name, config.value) for config in topic.configs),
    )


def _result(image: ClusterImage, result: TopicResult, topic: CreatableTopic | None) -> CreatableTopicResult:
    if result.error != ErrorCode.NONE or topic is None:
        return CreatableTopicResult(name=result.name, error_code=result.error, error_message=result.message)
    return CreatableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        num_partitions=result.partitions,
        replication_factor=result.replication_factor,
        configs=_configs(image, topic, result.replication_factor),
    )


@dataclass(frozen=True, slots=True)
class _WithRequested:
    """The image with the requested topic in it. So the answer is the same whether or not the request only validates."""

    image: ClusterImage
    topic: CreatableTopic

    def overrides(self, kind: str, name: str) -> Mapping[str, str]:
        if (kind, name) == ("topic", self.topic.name):
            return {config.name: config.value for config in self.topic.configs if config.value is not None}
        return self.image.overrides(kind, name)


def _configs(image: ClusterImage, topic: CreatableTopic, replication_factor: int) -> list[CreatableTopicConfigs]:
    described = describe_topic(_WithRequested(image, topic), topic.name, replication_factor=replication_factor)
    return [CreatableTopicConfigs(c.name, c.value, c.read_only, c.source, c.sensitive) for c in described]


SERVED_API: Final = ServedApi(APIS[ApiKey.CREATE_TOPICS], handle)
