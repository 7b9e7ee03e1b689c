"""ElectLeaders (43), versions 0-2. The controller decides.

v1 election types (KIP-460) and a top-level error code · v2 flexible.

Differences from Kafka: none known.
"""

from collections.abc import Iterable

from libs.rpc.contracts.controller import ELECT_LEADERS, PREFERRED, ElectedLeader, ElectLeaders, ElectLeadersReply
from libs.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from services.gateway.controller_calls import NotDone, ask
from services.gateway.state import GatewayState, RequestContext

FIRST_WITH_TYPES = 1


async def handle(gateway: GatewayState, context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    partitions = None
    if request.topic_partitions is not None:
        partitions = tuple((topic.topic, index) for topic in request.topic_partitions for index in topic.partitions)
    election_type = request.election_type if context.api_version >= FIRST_WITH_TYPES else PREFERRED
    error = 0
    found: tuple[ElectedLeader, ...]
    try:
        body = ElectLeaders(election_type, partitions)
        found = (await ask(gateway, ELECT_LEADERS, body, ElectLeadersReply, request.timeout_ms)).partitions
    except NotDone as failure:
        error = failure.error
        found = tuple(ElectedLeader(name, index, failure.error, failure.message) for name, index in partitions or ())
    results = _by_topic(found) if request.topic_partitions is None else _as_asked(request.topic_partitions, found)
    return ElectLeadersResponse(
        error_code=error if context.api_version >= FIRST_WITH_TYPES else 0, replica_election_results=results
    )


def _by_topic(found: Iterable[ElectedLeader]) -> list[ReplicaElectionResult]:
    by_topic: dict[str, ReplicaElectionResult] = {}
    for each in found:
        by_topic.setdefault(each.topic, ReplicaElectionResult(each.topic)).partition_result.append(_result(each))
    return list(by_topic.values())


def _as_asked(asked: Iterable[TopicPartitions], found: Iterable[ElectedLeader]) -> list[ReplicaElectionResult]:
    """As in Kafka, also a topic without partitions, and a partition as often as it is named."""
    results = iter(found)
    return [ReplicaElectionResult(each.topic, [_result(next(results)) for _ in each.partitions]) for each in asked]


def _result(elected: ElectedLeader) -> PartitionResult:
    return PartitionResult(elected.partition, elected.error, elected.message)
