"""DescribeProducers (61), version 0: the producers that a partition's leader knows of (KIP-664).

`kafka-transactions describe-producers` and `find-hanging` ask it. The request waits for a partition without a leader.

Differences from Kafka: the leader is asked wherever it is, where Kafka answers NOT_LEADER_OR_FOLLOWER. An answer has a bound
(services/storage/replication/leader/active_producers.py), and in a request for more than `REPEATED_MAX` partitions, one that is
named again is passed over.
"""

from typing import Final

from libs.cluster.topic_names import is_legal
from libs.rpc.contracts.storage import (
    DESCRIBE_PRODUCERS,
    ActiveProducer,
    DescribeProducers,
    DescribeProducersReply,
    PartitionProducers,
)
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.leader_requests import LeaderRequest, ask_leaders, error_by_name

TIMEOUT_S = 5.0
REPEATED_MAX: Final = 50
"""The most partitions of a request in which one may be named several times. Each mention has the whole answer."""

_MESSAGES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The request attempted to perform an operation on an invalid topic.",
}
NO_ANSWER = PartitionProducers(ErrorCode.NOT_LEADER_OR_FOLLOWER)

Key = tuple[str, int]


async def handle(gateway: GatewayState, context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    image, asked = gateway.image, _without_floods(request.topics)
    wanted: dict[Key, tuple[bytes, int]] = {}
    for name, indexes in asked:
        topic = image.topics.get(name)
        for index in indexes:
            if topic is not None and 0 <= index < topic.partitions:
                wanted[name, index] = bytes.fromhex(topic.topic_id), index
    answers = await ask_leaders(
        gateway,
        wanted,
        LeaderRequest(
            DESCRIBE_PRODUCERS,
            lambda keys: DescribeProducers(tuple(wanted[key] for key in keys)),
            DescribeProducersReply,
            is_final=lambda answer: answer.error != ErrorCode.NOT_LEADER_OR_FOLLOWER,
            retry_timeout_s=TIMEOUT_S,
        ),
    )
    response = DescribeProducersResponse()
    for name, indexes in asked:
        results = [
            _result(index, answers.get((name, index), NO_ANSWER)) if (name, index) in wanted else _refused(name, index)
            for index in indexes
        ]
        response.topics.append(TopicResponse(name, results))
    return response


def _without_floods(topics: list[TopicRequest]) -> list[tuple[str, list[int]]]:
    """The partitions by topic. One with many producers, named thousands of times, would fill the memory."""
    asked = [(topic.name, topic.partition_indexes) for topic in topics]
    if sum(len(indexes) for _, indexes in asked) <= REPEATED_MAX:
        return asked
    told: set[Key] = set()
    firsts = []
    for name, indexes in asked:
        fresh = [index for index in dict.fromkeys(indexes) if (name, index) not in told]
        told.update((name, index) for index in fresh)
        firsts.append((name, fresh))
    return firsts


def _refused(topic: str, index: int) -> PartitionResponse:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal(topic) else ErrorCode.INVALID_TOPIC_EXCEPTION
    return PartitionResponse(index, error, _MESSAGES[error])


def _result(index: int, answer: PartitionProducers) -> PartitionResponse:
    return PartitionResponse(index, error_by_name(answer.error), None, [_state(producer) for producer in answer.producers])


def _state(producer: ActiveProducer) -> ProducerState:
    return ProducerState(
        producer.producer_id,
        producer.epoch,
        producer.last_sequence,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.transaction_start,
    )


SERVED_API: Final = ServedApi(APIS[ApiKey.DESCRIBE_PRODUCERS], handle)
