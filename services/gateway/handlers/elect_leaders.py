"""ElectLeaders (43), versions 0-2. The controller decides.

v1 election types (KIP-460) and a top-level error code · v2 flexible.

Differences from Kafka: none known.
"""

from collections.abc import Iterable
from typing import Final

from libs.rpc.contracts.controller import ELECT_LEADERS, PREFERRED, ElectedLeader, ElectLeaders, ElectLeadersReply
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.controller_requests import RequestFailed, ask

FIRST_WITH_TYPES = 1


async def handle(gateway: GatewayState, context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    partitions = None
    if request.topic_partitions is not None:
        partitions = tuple((topic.topic, index) for topic in request.topic_partitions for index in topic.partitions)
    election_type = request.election_type if context.api_version >= FIRST_WITH_TYPES else PREFERRED
    error = 0
    elected: tuple[ElectedLeader, ...]
    try:
        body = ElectLeaders(election_type, partitions)
        elected = (await ask(gateway, context, ELECT_LEADERS, body, ElectLeadersReply, request.timeout_ms)).partitions
    except RequestFailed as failure:
        error = failure.error
        elected = tuple(ElectedLeader(name, index, failure.error, failure.message) for name, index in partitions or ())
    results = _by_topic(elected) if request.topic_partitions is None else _in_request_order(request.topic_partitions, elected)
    return ElectLeadersResponse(
        error_code=error if context.api_version >= FIRST_WITH_TYPES else 0, replica_election_results=results
    )


def _by_topic(elected: Iterable[ElectedLeader]) -> list[ReplicaElectionResult]:
    by_topic: dict[str, ReplicaElectionResult] = {}
    for each in elected:
        by_topic.setdefault(each.topic, ReplicaElectionResult(each.topic)).partition_result.append(_result(each))
    return list(by_topic.values())


def _in_request_order(requested: Iterable[TopicPartitions], elected: Iterable[ElectedLeader]) -> list[ReplicaElectionResult]:
    """The results in the order of the request. As in Kafka, topics without partitions and repeated partitions are kept."""
    results = iter(elected)
    return [ReplicaElectionResult(each.topic, [_result(next(results)) for _ in each.partitions]) for each in requested]


def _result(elected: ElectedLeader) -> PartitionResult:
    return PartitionResult(elected.partition, elected.error, elected.message)


SERVED_API: Final = ServedApi(APIS[ApiKey.ELECT_LEADERS], handle)
