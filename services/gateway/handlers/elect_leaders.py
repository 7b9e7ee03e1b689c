"""ElectLeaders (43), versions 0-2. The controller decides.

v1 election types (KIP-460) and a top-level error code · v2 flexible.

Differences from Kafka: none known.
"""

from libs.rpc.contracts.controller import ELECT_LEADERS, PREFERRED, ElectLeaders, ElectLeadersReply
from libs.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from services.gateway.controller_calls import NotDone, ask
from services.gateway.state import GatewayState, RequestContext

FIRST_WITH_TYPES = 1


async def handle(gateway: GatewayState, context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    partitions = None
    if request.topic_partitions is not None:
        partitions = tuple((topic.topic, index) for topic in request.topic_partitions for index in topic.partitions)
    election_type = request.election_type if context.api_version >= FIRST_WITH_TYPES else PREFERRED
    by_topic: dict[str, list[PartitionResult]] = {}
    error = 0
    try:
        body = ElectLeaders(election_type, partitions)
        for each in (await ask(gateway, ELECT_LEADERS, body, ElectLeadersReply, request.timeout_ms)).partitions:
            by_topic.setdefault(each.topic, []).append(PartitionResult(each.partition, each.error, each.message))
    except NotDone as failure:
        error = failure.error
        for name, index in dict.fromkeys(partitions or ()):
            by_topic.setdefault(name, []).append(PartitionResult(index, failure.error, failure.message))
    results = [ReplicaElectionResult(name, found) for name, found in by_topic.items()]
    return ElectLeadersResponse(
        error_code=error if context.api_version >= FIRST_WITH_TYPES else 0, replica_election_results=results
    )
