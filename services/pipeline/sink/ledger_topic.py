"""The ledger topic: made if it is absent, refused if its config would lose entries."""

from libs.client.kafka_connection import KafkaConnection
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import create_topics, describe_configs
from services.pipeline.sink.client.cluster import ClusterClient
from services.pipeline.sink.client.errors import SinkError, refuse
from services.pipeline.sink.client.requests import TopicPartition
from services.pipeline.transforms.partitioning import murmur2_of

PARTITIONS = 8
CREATE_TIMEOUT_MS = 30_000
TOPIC_RESOURCE = 2
COMPACT = "compact"
# Old entries go soon: a segment that is still written to is never compacted.
CONFIGS = {"cleanup.policy": COMPACT, "segment.bytes": str(16 << 20), "min.cleanable.dirty.ratio": "0.1"}


def ledger_partition(cluster: ClusterClient, topic: str, sink_id: str) -> TopicPartition:
    """Where entries of this sink lie. Makes the topic if needed. Raises SinkError if the topic is not compacted."""
    count = cluster.partition_count(topic)
    if count is None:
        cluster.retrying(
            f"creation of the ledger topic {topic}", lambda: cluster.any_broker(lambda broker: _create(broker, topic))
        )
        count = cluster.partition_count(topic)
        if count is None:
            raise SinkError(f"the ledger topic {topic} was created and is not to be seen")
    policy = cluster.retrying(f"config of {topic}", lambda: cluster.any_broker(lambda broker: _cleanup_policy(broker, topic)))
    if policy != COMPACT:
        raise SinkError(f"the ledger topic {topic} has cleanup.policy={policy}, which would lose entries: it must be {COMPACT}")
    return TopicPartition(topic, murmur2_of(sink_id.encode()) % count)


def _create(broker: KafkaConnection, topic: str) -> None:
    configs = [create_topics.CreatableTopicConfig(*config) for config in CONFIGS.items()]
    created = create_topics.CreatableTopic(topic, PARTITIONS, -1, configs=configs)
    request = create_topics.CreateTopicsRequest([created], CREATE_TIMEOUT_MS)
    response = broker.ask_message(create_topics, ApiKey.CREATE_TOPICS, 5, request)
    for result in response.topics:
        if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            refuse(f"creation of the ledger topic {topic}", result.error_code, result.error_message)


def _cleanup_policy(broker: KafkaConnection, topic: str) -> str:
    resource = describe_configs.DescribeConfigsResource(TOPIC_RESOURCE, topic, ["cleanup.policy"])
    request = describe_configs.DescribeConfigsRequest([resource])
    response = broker.ask_message(describe_configs, ApiKey.DESCRIBE_CONFIGS, 1, request)
    for result in response.results:
        refuse(f"DescribeConfigs of {topic}", result.error_code, result.error_message)
        for config in result.configs:
            return str(config.value)
    return "unknown"
