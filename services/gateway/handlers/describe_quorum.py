"""DescribeQuorum (55), versions 0-2 (KIP-595): who keeps the cluster's metadata.

v1 times of the last fetch (KIP-836) · v2 nodes, directory ids and messages (KIP-853).

Metadata is in etcd here, and no log. The answer translates: the leader is the elected controller, its epoch is the revision of
its election, and the voters are all controllers. The high watermark is the newest revision that this gateway or any controller
knows. It is the leader's log end, too, since etcd has taken each write before a controller knows it. A standby's log end is
the revision of its image, which it is asked for; -1 if it does not answer.

Only partition 0 of `__cluster_metadata` is described. As in Kafka, a request that names anything besides it is answered with
UNKNOWN_TOPIC_OR_PARTITION for each partition.

Differences from Kafka: there are no observers, though all processes follow etcd. Controllers have no listeners, since they do
not speak Kafka's protocol, and no directories.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from libs.cluster import keys
from libs.cluster.image import ClusterImage
from libs.cluster.records import CONTROLLER
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Node,
    ReplicaState,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext

METADATA_TOPIC: Final = "__cluster_metadata"
_EPOCH_MASK: Final = 0x7FFFFFFF
"""A leader epoch is an int32, and etcd's revisions are longer."""
_UNKNOWN: Final = "This server does not host this topic-partition."


async def handle(gateway: GatewayState, context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    if not _names_only_the_metadata(request.topics):
        return DescribeQuorumResponse(error_message="", topics=[_unknown(topic) for topic in request.topics])
    asked_at_ms, asked_at_revision = gateway.clock.wall_ms(), gateway.image.revision
    revisions = await gateway.controller_revisions()
    image = gateway.image
    if image.controller is None:
        # As from a voter of Kafka that is not the leader. Clients ask again.
        return DescribeQuorumResponse(
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, error_message="There is no elected controller at the moment."
        )
    partition = _described(image, image.controller.node_id, revisions)
    for voter in partition.current_voters:
        revision = revisions.get(voter.replica_id, -1)
        voter.last_fetch_timestamp = asked_at_ms if revision >= 0 else -1
        voter.last_caught_up_timestamp = asked_at_ms if revision >= asked_at_revision else -1
    return DescribeQuorumResponse(
        error_message="",
        topics=[ResponseTopicData(METADATA_TOPIC, [partition])],
        nodes=[Node(voter.replica_id) for voter in partition.current_voters],
    )


def _names_only_the_metadata(topics: Iterable[RequestTopicData]) -> bool:
    return [(topic.topic_name, [p.partition_index for p in topic.partitions]) for topic in topics] == [(METADATA_TOPIC, [0])]


def _unknown(topic: RequestTopicData) -> ResponseTopicData:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ResponseTopicData(
        topic.topic_name, [ResponsePartitionData(p.partition_index, error, _UNKNOWN) for p in topic.partitions]
    )


def _described(image: ClusterImage, leader: int, revisions: Mapping[int, int]) -> ResponsePartitionData:
    end = max([image.revision, *revisions.values()])
    return ResponsePartitionData(
        error_message="",
        leader_id=leader,
        leader_epoch=image.create_revision(keys.CONTROLLER) & _EPOCH_MASK,
        high_watermark=end,
        current_voters=[
            ReplicaState(node_id, log_end_offset=end if node_id == leader else revisions.get(node_id, -1))
            for node_id in sorted({leader, *image.members(CONTROLLER)})
        ],
    )


SERVED_API: Final = ServedApi(APIS[ApiKey.DESCRIBE_QUORUM], handle)
