"""Metadata (3), versions 0-13.

v0 an empty list means all topics, and replicas that are down are left out · v1 null means all topics, controller id, racks,
internal topics · v2 cluster id · v4 allow_auto_topic_creation · v5 offline replicas · v7 leader epochs · v8 authorized operations
(the cluster's until v10) · v9 flexible · v10 topic ids in answers · v12 requests by id · v13 top-level error.

Differences from Kafka: a topic that is created on demand is in the same answer if it exists within a second. Kafka answers
UNKNOWN_TOPIC_OR_PARTITION first, and clients retry. Of the internal topics, `__share_group_state` is not created on demand,
since share groups are not built. `controller_id` is the addressed broker, where Kafka names any: each forwards anyway. A
fenced broker is named for five minutes more (`fenced_broker_s_max`), since gateways keep its port open
(services/gateway/core/fenced_brokers.py says why). Replicas there are offline, as in Kafka. While no broker is alive, all known
brokers are named. librdkafka forgets all brokers when an answer names none, and does not come back (its issue 5301). Java's
client ignores such an answer. A busy idempotent producer is told of a former leader over the connection that it uses
(services/gateway/core/produced_partitions.py says why).
"""

import asyncio
from typing import Final

from libs.cluster.configs.resolve import effective_broker_bool
from libs.cluster.image import ClusterImage
from libs.cluster.records import Topic
from libs.cluster.topic_names import GROUP_TOPIC, INTERNAL_TOPICS, TRANSACTION_TOPIC, is_legal
from libs.rpc.contracts.controller import (
    CREATE_INTERNAL_TOPIC,
    CREATE_TOPICS,
    CreateInternalTopic,
    CreateTopics,
    NewTopic,
    TopicsReply,
)
from libs.rpc.messages.errors import RpcFailure
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    RequestedTopic,
)
from libs.wire.primitives import NO_UUID
from services.gateway.core.cluster_view import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, ClusterView
from services.gateway.core.produced_partitions import ProducedPartitions
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import ControllerUnavailable, GatewayState, RequestContext
from services.gateway.peers.controller_requests import mutating_client

CREATION_S_MAX = 1.0

_SHOWN_CREATION_ERRORS = (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.POLICY_VIOLATION)


async def handle(gateway: GatewayState, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    version = context.api_version
    if request.topics is not None and version < 12 and any(_needs_v12(topic) for topic in request.topics):
        return _refused(request.topics)
    names, ids = _requested(request.topics, gateway.image)
    creation_errors = await _create_missing(gateway, context, request, names)
    await gateway.probe_peer_gateways()
    image = gateway.image
    view = ClusterView(image, lambda node_id: gateway.broker_endpoint(node_id, context))
    topics = [_topic(view, topic, version) for topic in _known_topics(image, names, ids)]
    produced, now = context.produced, asyncio.get_running_loop().time()
    is_producing = produced is not None and produced.is_busy(now)
    brokers = view.named_brokers(
        lambda node_id: gateway.lists_fenced_broker(node_id) or (is_producing and node_id == context.broker_id)
    )
    if produced is not None and is_producing and any(broker.node_id == context.broker_id for broker in brokers):
        _keep_former_leader(topics, context.broker_id, produced, now)
    topics += [_missing(name, creation_errors) for name in names or () if name not in image.topics]
    topics += [
        MetadataTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id) for topic_id in ids if topic_id not in image.topics_by_id
    ]
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name is not None:
                topic.authorized_operations = TOPIC_OPERATIONS
    response = MetadataResponse(
        brokers=[MetadataBroker(b.node_id, b.host, b.port, b.rack) for b in brokers],
        cluster_id=image.cluster_id,
        controller_id=view.controller_id(context.broker_id),
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _needs_v12(topic: RequestedTopic) -> bool:
    return topic.name is None or topic.topic_id != NO_UUID


def _refused(topics: list[RequestedTopic]) -> MetadataResponse:
    # These versions cannot carry a null name back.
    refused = [MetadataTopic(ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id) for topic in topics]
    return MetadataResponse([], None, -1, refused, error_code=ErrorCode.INVALID_REQUEST)


def _requested(topics: list[RequestedTopic] | None, image: ClusterImage) -> tuple[list[str] | None, list[bytes]]:
    """The distinct names (None: all topics) and ids. As in Kafka, names are ignored in a request that has an id."""
    if topics is None:
        return None, []
    ids = list(dict.fromkeys(topic.topic_id for topic in topics if topic.topic_id != NO_UUID))
    if ids:
        return [], ids
    return list(dict.fromkeys(topic.name or "" for topic in topics)), []


def _known_topics(image: ClusterImage, names: list[str] | None, ids: list[bytes]) -> list[Topic]:
    if names is None:
        return list(image.topics.values())
    by_name = [topic for name in names if (topic := image.topics.get(name)) is not None]
    return by_name + [topic for topic_id in ids if (topic := image.topics_by_id.get(topic_id)) is not None]


async def _create_missing(
    gateway: GatewayState, context: RequestContext, request: MetadataRequest, names: list[str] | None
) -> dict[str, ErrorCode]:
    """Creates the requested topics that are named and do not exist. Returns the errors that the client should see, by name."""
    image = gateway.image
    missing = [name for name in names or () if name not in image.topics and is_legal(name)]
    if not missing or not request.allow_auto_topic_creation or not effective_broker_bool(image, "auto.create.topics.enable"):
        return {}
    errors: dict[str, ErrorCode] = {}
    ordinary = tuple(NewTopic(name, partitions=-1, replication_factor=-1) for name in missing if name not in INTERNAL_TOPICS)
    if ordinary:
        client = mutating_client(context, strict=True)
        errors |= await _create(gateway, CREATE_TOPICS, CreateTopics(ordinary, asked_by=context.asker, client=client))
    for name in (GROUP_TOPIC, TRANSACTION_TOPIC):
        if name in missing:
            errors |= await _create(gateway, CREATE_INTERNAL_TOPIC, CreateInternalTopic(name, context.asker))
    return errors


async def _create(gateway: GatewayState, method: str, wanted: object) -> dict[str, ErrorCode]:
    try:
        reply = await gateway.controller(method, wanted, TopicsReply, timeout_s=CREATION_S_MAX)
    except (RpcFailure, ControllerUnavailable):
        return {}  # UNKNOWN_TOPIC_OR_PARTITION, and the client retries
    await gateway.wait_for_revision(reply.revision, CREATION_S_MAX)
    return {result.name: ErrorCode(result.error) for result in reply.topics if result.error in _SHOWN_CREATION_ERRORS}


def _missing(name: str, creation_errors: dict[str, ErrorCode]) -> MetadataTopic:
    error = creation_errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not is_legal(name):
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataTopic(error, name, is_internal=name in INTERNAL_TOPICS)


def _topic(view: ClusterView, topic: Topic, version: int) -> MetadataTopic:
    topic_id = bytes.fromhex(topic.topic_id)
    partitions = []
    for index, state in enumerate(view.image.partitions_of(topic_id)):
        seen = view.partition(state)
        error, replicas, isr = seen.error, seen.replicas, seen.isr
        if error is ErrorCode.LISTENER_NOT_FOUND and version < 6:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        if version == 0 and seen.offline:
            # The first version has no offline replicas: they are left out, and the partition says so.
            replicas = tuple(node for node in replicas if node not in seen.offline)
            isr = tuple(node for node in isr if node not in seen.offline)
            error = error or ErrorCode.REPLICA_NOT_AVAILABLE
        partitions.append(MetadataPartition(error, index, seen.leader, seen.leader_epoch, replicas, isr, seen.offline))
    internal = topic.internal or topic.name in INTERNAL_TOPICS
    return MetadataTopic(ErrorCode.NONE, topic.name, topic_id, internal, partitions)


def _keep_former_leader(topics: list[MetadataTopic], broker_id: int, produced: ProducedPartitions, now: float) -> None:
    """Names the addressed broker as the leader where the connection's producer must not hear of another one now.

    The epoch is an earlier one, as from a broker that has not heard of the change: a client that knows more ignores it.
    """
    by_id = {topic.topic_id: topic for topic in topics}
    for topic_id, index in produced.partitions():
        topic = by_id.get(topic_id)
        if topic is None or not index < len(topic.partitions):
            continue
        partition = topic.partitions[index]
        if broker_id in partition.replicas and produced.keeps((topic_id, index), partition.leader_id, now):
            topic.partitions[index] = partition._replace(
                error_code=ErrorCode.NONE, leader_id=broker_id, leader_epoch=max(partition.leader_epoch - 1, 0)
            )


SERVED_API: Final = ServedApi(APIS[ApiKey.METADATA], handle, tells_addresses=True)
