"""The internal topics, and the configs with which they are created."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from libs.cluster.configs.resolve import effective_broker_int, is_set
from libs.cluster.image import ClusterImage
from libs.cluster.shard_owners import OWNED_BY
from libs.cluster.topic_names import GROUP_TOPIC, TRANSACTION_TOPIC
from libs.rpc.contracts.controller import CreateInternalTopic, CreateTopics, NewTopic, TopicResult
from libs.wire.errors import ErrorCode
from services.controller.core.shards.shard_ownership import owned_from_the_start
from services.controller.core.topics.replica_assignment import Limits
from services.controller.core.topics.topics import Creation, Randomness, create_topics, default_replication_factor

PREFIXES: Final[Mapping[str, str]] = {GROUP_TOPIC: "offsets.topic.", TRANSACTION_TOPIC: "transaction.state.log."}
"""The prefix of the broker configs with which each internal topic is created."""
MIN_IN_SYNC: Final = "transaction.state.log.min.isr"


def create_internal_topic(image: ClusterImage, request: CreateInternalTopic, random: Randomness, limits: Limits) -> Creation:
    """The creation of an internal topic, with an owner for each shard if a coordinator lives. There is nothing to write if the
    topic exists."""
    name = request.name
    if name not in OWNED_BY:
        return _answered(TopicResult(name, ErrorCode.INVALID_REQUEST, "No coordinator owns that topic."))
    if (topic := image.topics.get(name)) is not None:
        topic_id = bytes.fromhex(topic.topic_id)
        return _answered(TopicResult(name, ErrorCode.NONE, None, topic_id, topic.partitions))
    decision = create_topics(image, CreateTopics((_new_topic(image, name),)), random, limits)
    members = image.members(OWNED_BY[name])
    owned = tuple(replace(each, partitions=owned_from_the_start(each.partitions, members)) for each in decision.planned)
    return replace(decision, planned=owned)


def _answered(result: TopicResult) -> Creation:
    return Creation((result.name,), (), (result,))


def _new_topic(image: ClusterImage, name: str) -> NewTopic:
    partitions = effective_broker_int(image, PREFIXES[name] + "num.partitions")
    factor = default_replication_factor(image, PREFIXES[name] + "replication.factor")
    return NewTopic(name, partitions, factor, configs=tuple(internal_topic_configs(image, name).items()))


def internal_topic_configs(image: ClusterImage, name: str) -> dict[str, str]:
    """The configs with which a coordinators' topic is created.

    `transaction.state.log.min.isr` is among them where somebody set it. Otherwise the topic has the default of all topics, 2
    where there are as many replicas, as it has in Kafka.
    """
    of_transactions = name == TRANSACTION_TOPIC
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed" if of_transactions else "producer",
        "segment.bytes": str(effective_broker_int(image, PREFIXES[name] + "segment.bytes")),
    }
    if of_transactions:
        configs["unclean.leader.election.enable"] = "false"
    if of_transactions and is_set(image, MIN_IN_SYNC):
        configs["min.insync.replicas"] = str(effective_broker_int(image, MIN_IN_SYNC))
    return configs
