"""The internal topics, and the configs with which they are created."""

from dataclasses import replace
from typing import Final

from libs.cluster.configs.resolve import effective_broker_int
from libs.cluster.image import ClusterImage
from libs.cluster.topic_names import GROUP_TOPIC
from libs.rpc.contracts.controller import CreateInternalTopic, CreateTopics, NewTopic, TopicResult
from libs.wire.errors import ErrorCode
from services.controller.core.shards.shard_ownership import OWNED_BY, owned_from_the_start
from services.controller.core.topics.replica_assignment import Limits
from services.controller.core.topics.topics import Creation, Randomness, create_topics, default_replication_factor

FACTOR: Final = "offsets.topic.replication.factor"


def create_internal_topic(image: ClusterImage, request: CreateInternalTopic, random: Randomness, limits: Limits) -> Creation:
    """The creation of an internal topic, with an owner for each shard if a coordinator lives. There is nothing to write if the
    topic exists."""
    name = request.name
    if name not in OWNED_BY:
        return _answered(TopicResult(name, ErrorCode.INVALID_REQUEST, "No coordinator owns that topic."))
    if (topic := image.topics.get(name)) is not None:
        topic_id = bytes.fromhex(topic.topic_id)
        return _answered(TopicResult(name, ErrorCode.NONE, None, topic_id, topic.partitions))
    decision = create_topics(image, CreateTopics((_group_topic(image),)), random, limits)
    members = image.members(OWNED_BY[name])
    owned = tuple(replace(each, partitions=owned_from_the_start(each.partitions, members)) for each in decision.planned)
    return replace(decision, planned=owned)


def _answered(result: TopicResult) -> Creation:
    return Creation((result.name,), (), (result,))


def _group_topic(image: ClusterImage) -> NewTopic:
    partitions = effective_broker_int(image, "offsets.topic.num.partitions")
    factor = default_replication_factor(image, FACTOR)
    return NewTopic(GROUP_TOPIC, partitions, factor, configs=tuple(group_topic_configs(image).items()))


def group_topic_configs(image: ClusterImage) -> dict[str, str]:
    """The configs with which the topic of groups is created."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(effective_broker_int(image, "offsets.topic.segment.bytes")),
    }
