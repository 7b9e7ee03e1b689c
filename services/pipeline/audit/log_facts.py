"""What the cluster says of the topics that an audit compares: offsets, leaders and cleanup policies."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec
from pyspark.sql import SparkSession

from libs.client.security import SecurityProblem
from services.pipeline.audit.slices import Partition, Scope
from services.pipeline.errors import PipelineError
from services.pipeline.spark.cluster import ClusterSettings, Topics
from services.pipeline.spark.cluster_security import librdkafka_properties
from services.pipeline.spark.patterns import pattern_fits

TIMEOUT_S = 30.0


@dataclass(frozen=True)
class LogFacts:
    """`scopes` reach from each partition's log start to its end: the last stable offset, unless uncommitted records count."""

    scopes: Mapping[Partition, Scope]
    compacted: Mapping[str, bool]


class LogSurvey:
    """Asks a cluster. Raises PipelineError in a sentence."""

    def __init__(self, spark: SparkSession, cluster: ClusterSettings, topics: Topics, *, read_uncommitted: bool) -> None:
        self._spark = spark
        self._cluster = cluster
        self._topics = topics
        self._isolation = IsolationLevel.READ_UNCOMMITTED if read_uncommitted else IsolationLevel.READ_COMMITTED

    @cached_property
    def _admin(self) -> Any:
        try:
            secured = {**self._cluster.options, **librdkafka_properties(self._cluster.security)}
            return AdminClient({**secured, "bootstrap.servers": self._cluster.bootstrap_servers, "log_level": 0})
        except SecurityProblem as error:
            raise PipelineError(f"cluster.security: {error}") from None
        except KafkaException as error:
            raise PipelineError(f"cluster.options do not suit the audit's client: {error.args[0].str()}") from error

    def facts(self) -> LogFacts:
        metadata = self._asked("Metadata", lambda: self._admin.list_topics(timeout=TIMEOUT_S))
        names = self._chosen(metadata.topics)
        partitions = [Partition(name, index) for name in names for index in metadata.topics[name].partitions]
        for partition in partitions:
            if _leader(metadata, partition) is None:
                raise PipelineError(f"{partition.topic}-{partition.number} has no leader now; an audit needs all partitions")
        starts = self.offsets(partitions, OffsetSpec.earliest())
        ends = self.offsets(partitions, OffsetSpec.latest())
        return LogFacts({each: Scope(starts[each], ends[each]) for each in partitions}, self._compacted(names))

    def leader(self, partition: Partition) -> tuple[str, int] | None:
        """Host and port of its leader now; None if it has none."""
        metadata = self._asked("Metadata", lambda: self._admin.list_topics(partition.topic, timeout=TIMEOUT_S))
        return _leader(metadata, partition)

    def starts(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Log start offsets now."""
        return self.offsets(partitions, OffsetSpec.earliest())

    def offsets(self, partitions: Iterable[Partition], spec: Any) -> dict[Partition, int]:
        asked = {TopicPartition(*partition): spec for partition in partitions}
        futures = self._admin.list_offsets(asked, isolation_level=self._isolation, request_timeout=TIMEOUT_S)
        answers = {Partition(each.topic, each.partition): future for each, future in futures.items()}
        return {partition: self._asked("ListOffsets", future.result).offset for partition, future in answers.items()}

    def _chosen(self, existing: Mapping[str, Any]) -> list[str]:
        if self._topics.pattern is not None:
            fits = pattern_fits(self._spark, self._topics.pattern)
            names = [name for name in existing if fits(name)]
            if not names:
                raise PipelineError(f"no topic matches topic_pattern {self._topics.pattern!r}")
            return sorted(names)
        for name in self._topics.names:
            if name not in existing or existing[name].error is not None:
                raise PipelineError(f"there is no topic {name!r} at {self._cluster.bootstrap_servers}")
        return sorted(self._topics.names)

    def _compacted(self, names: list[str]) -> dict[str, bool]:
        futures = self._admin.describe_configs([ConfigResource("TOPIC", name) for name in names], request_timeout=TIMEOUT_S)
        configs = {resource.name: self._asked("DescribeConfigs", future.result) for resource, future in futures.items()}
        return {name: "compact" in config["cleanup.policy"].value for name, config in configs.items()}

    def _asked(self, what: str, answer: Any) -> Any:
        try:
            return answer()
        except KafkaException as error:
            raise PipelineError(f"{self._cluster.bootstrap_servers} does not answer {what}: {error.args[0].str()}") from error


def _leader(metadata: Any, partition: Partition) -> tuple[str, int] | None:
    found = metadata.topics[partition.topic].partitions.get(partition.number)
    broker = None if found is None else metadata.brokers.get(found.leader)
    return None if broker is None else (broker.host, broker.port)
