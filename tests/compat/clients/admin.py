"""Topics and configs by librdkafka's admin client: what most tests need before they can begin."""

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.support.polling import eventually

REQUEST_S = 60.0


class Admin:
    """Every method waits for the answer and raises KafkaException as the client does."""

    def __init__(self, bootstrap: str) -> None:
        self.client = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None, replicas: int = -1) -> None:
        """Returns when every partition has a leader."""
        self.create_all([NewTopic(name, partitions, replicas, config=dict(config or {}))])

    def create_all(self, topics: list[NewTopic]) -> None:
        for outcome in self.client.create_topics(topics, request_timeout=REQUEST_S).values():
            outcome.result()
        for topic in topics:
            eventually(lambda name=topic.topic, count=topic.num_partitions: self._is_led(name, count))

    def delete(self, name: str) -> None:
        """Returns when the topic is gone from metadata."""
        self.client.delete_topics([name], request_timeout=REQUEST_S)[name].result()
        eventually(lambda: name not in self.names())

    def grow(self, name: str, partitions: int) -> None:
        self.client.create_partitions([NewPartitions(name, partitions)], request_timeout=REQUEST_S)[name].result()
        eventually(lambda: self._is_led(name, partitions))

    def names(self) -> set[str]:
        return set(self.client.list_topics(timeout=REQUEST_S).topics)

    def partition_count(self, name: str) -> int:
        return len(self.client.list_topics(timeout=REQUEST_S).topics[name].partitions)

    def config(self, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
        resource = ConfigResource(kind, name)
        return self.client.describe_configs([resource], request_timeout=REQUEST_S)[resource].result()

    def set_config(self, kind: ResourceType, name: str, key: str, value: str | None) -> None:
        """None takes the override away."""
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(key, value, incremental_operation=operation)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        self.client.incremental_alter_configs([resource], request_timeout=REQUEST_S)[resource].result()

    def close(self) -> None:
        """librdkafka has no other way: the last reference ends its threads."""
        del self.client

    def _is_led(self, name: str, count: int) -> bool:
        # All topics are asked for: a request that names one would create it.
        found = self.client.list_topics(timeout=REQUEST_S).topics.get(name)
        if found is None or len(found.partitions) < max(count, 1):
            return False
        return all(partition.leader > 0 for partition in found.partitions.values())


def code_of(error: KafkaException) -> int:
    """The Kafka error code inside."""
    inner: KafkaError = error.args[0]
    return inner.code()
