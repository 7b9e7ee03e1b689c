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
from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
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
    image = gateway.image
    wanted: dict[Key, tuple[bytes, int]] = {}
    for topic_request in request.topics:
        topic = image.topics.get(topic_request.name)
        for index in topic_request.partition_indexes:
            if topic is not None and 0 <= index < topic.partitions:
                wanted[topic_request.name, index] = bytes.fromhex(topic.topic_id), index
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
    repeats = sum(len(topic_request.partition_indexes) for topic_request in request.topics) <= REPEATED_MAX
    told: set[Key] = set()
    response = DescribeProducersResponse()
    for topic_request in request.topics:
        name, results = topic_request.name, []
        for index in topic_request.partition_indexes:
            key = name, index
            if repeats or key not in told:
                told.add(key)
                results.append(_result(index, answers.get(key, NO_ANSWER)) if key in wanted else _refused(name, index))
        response.topics.append(TopicResponse(name, results))
    return response


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
