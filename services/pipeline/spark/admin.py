"""Questions to the cluster through Kafka's own Admin client, with the same options as Spark's connector."""

from collections.abc import Iterable
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.spark.cluster import ClusterSettings, Topics
from services.pipeline.spark.jvm import jvm
from services.pipeline.spark.offset_ranges import Partition
from services.pipeline.spark.patterns import pattern_fits

TIMEOUT_MS = 30_000
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Kafka's `Uuid.ZERO_UUID`."""


class KafkaAdmin:
    """Use as a context manager. Raises PipelineError if no broker answers in 30 s."""

    def __init__(self, spark: SparkSession, cluster: ClusterSettings) -> None:
        self._spark = spark
        self._jvm = jvm(spark)
        self._servers = cluster.bootstrap_servers
        properties = self._jvm.java.util.Properties()
        for key, value in {**cluster.java_options, "bootstrap.servers": cluster.bootstrap_servers}.items():
            properties.put(key, value)
        for key in ("default.api.timeout.ms", "request.timeout.ms"):
            properties.put(key, str(TIMEOUT_MS))
        try:
            self._admin = self._jvm.org.apache.kafka.clients.admin.Admin.create(properties)
        except Py4JJavaError as error:
            reason = error.java_exception.getCause() or error.java_exception
            raise PipelineError(
                f"cluster.bootstrap_servers: the cluster at {self._servers} cannot be asked: {reason.getMessage()}"
            ) from None

    def __enter__(self) -> "KafkaAdmin":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        self._admin.close()

    def refuse_unknown(self, topics: Topics, table: str) -> list[str]:
        """The names of the topics that this table of the job file means. Raises PipelineError unless all are there, or some topic
        fits the pattern."""
        known = set(self._ask(lambda: self._admin.listTopics().names().get()))
        if missing := [name for name in topics.names if name not in known]:
            raise PipelineError(
                f"{table}.topics: there is no topic {missing[0]!r} in the cluster at {self._servers}, or its user "
                "lacks DESCRIBE on it"
            )
        if topics.pattern is None:
            return list(topics.names)
        found = sorted(filter(pattern_fits(self._spark, topics.pattern, table), known))
        if not found:
            raise PipelineError(
                f"{table}.topic_pattern: no topic of the cluster at {self._servers} on which its user has DESCRIBE fits "
                f"the pattern {topics.pattern!r}"
            )
        return found

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Ids of those topics that exist. Brokers older than Kafka 2.8 give none."""
        asked = self._jvm.java.util.ArrayList()
        for name in names:
            asked.append(name)
        futures = self._admin.describeTopics(asked).topicNameValues()
        found = {
            name: self._ask(lambda name=name: futures.get(name).get().topicId().toString(), unless="UnknownTopicOrPartition")
            for name in asked
        }
        return {name: topic_id for name, topic_id in found.items() if topic_id not in (None, NO_TOPIC_ID)}

    def earliest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Log start offsets of those partitions that exist."""
        return self._offsets(partitions, self._jvm.org.apache.kafka.clients.admin.OffsetSpec.earliest())

    def latest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """End offsets of those partitions that exist."""
        return self._offsets(partitions, self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest())

    def first_at(self, partitions: Iterable[Partition], time_ms: int) -> dict[Partition, int]:
        """The offset of each partition's first record whose timestamp is that time or later; left out where it has none."""
        spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.forTimestamp(time_ms)
        return {partition: offset for partition, offset in self._offsets(partitions, spec).items() if offset >= 0}

    def _offsets(self, partitions: Iterable[Partition], spec: Any) -> dict[Partition, int]:
        asked = {each: self._jvm.org.apache.kafka.common.TopicPartition(*each) for each in partitions}
        request = self._jvm.java.util.HashMap()
        for each in asked.values():
            request.put(each, spec)
        result = self._admin.listOffsets(request)
        found: dict[Partition, int] = {}
        for partition, each in asked.items():
            offset = self._ask(lambda each=each: result.partitionResult(each).get().offset(), unless="UnknownTopicOrPartition")
            if offset is not None:
                found[partition] = offset
        return found

    def _ask(self, question: Any, unless: str | None = None) -> Any:
        try:
            return question()
        except Py4JJavaError as error:
            text = error.java_exception.toString()
            if unless is not None and unless in text:
                return None
            raise PipelineError(
                f"cluster.bootstrap_servers: {self._servers} does not answer: {text.rpartition('errors.')[2]}"
            ) from None
