"""ListPartitionReassignments (46), version 0. Answered from the gateway's own image.

Differences from Kafka: none known. As in Kafka, partitions that are not being reassigned, or do not exist, are left out.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from libs.cluster.image import ClusterImage
from libs.cluster.records import Topic
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext


async def handle(
    gateway: GatewayState, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    image = gateway.image
    requested: Iterable[tuple[str, Iterable[int]]]
    if request.topics is None:
        requested = ((name, range(topic.partitions)) for name, topic in image.topics.items())
    else:
        requested = ((topic.name, topic.partition_indexes) for topic in request.topics)
    response = ListPartitionReassignmentsResponse()
    for name, indexes in requested:
        topic = image.topics.get(name)
        ongoing = list(_ongoing(image, topic, indexes)) if topic is not None else []
        if ongoing:
            response.topics.append(OngoingTopicReassignment(name, ongoing))
    return response


def _ongoing(image: ClusterImage, topic: Topic, indexes: Iterable[int]) -> Iterator[OngoingPartitionReassignment]:
    topic_id = bytes.fromhex(topic.topic_id)
    for index in indexes:
        state = image.partition(topic_id, index) if 0 <= index < topic.partitions else None
        if state is not None and (state.adding or state.removing):
            replicas = [replica.node_id for replica in state.replicas]
            yield OngoingPartitionReassignment(index, replicas, list(state.adding), list(state.removing))


SERVED_API: Final = ServedApi(APIS[ApiKey.LIST_PARTITION_REASSIGNMENTS], handle)
