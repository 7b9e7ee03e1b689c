"""What the cluster says of the topics that an audit compares: offsets, leaders and cleanup policies."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec

from services.pipeline.audit.slices import Partition, Scope
from services.pipeline.errors import PipelineError
from services.pipeline.spark.cluster import ClusterSettings, Topics

TIMEOUT_S = 30.0


@dataclass(frozen=True)
class LogFacts:
    """`scopes` reach from each partition's log start to its end: the last stable offset, unless uncommitted records count."""

    scopes: Mapping[Partition, Scope]
    compacted: Mapping[str, bool]
    leaders: Mapping[Partition, tuple[str, int]]


class LogSurvey:
    """Asks a cluster. Raises PipelineError in a sentence."""

    def __init__(self, cluster: ClusterSettings, topics: Topics, *, read_uncommitted: bool) -> None:
        self._cluster = cluster
        self._topics = topics
        self._isolation = IsolationLevel.READ_UNCOMMITTED if read_uncommitted else IsolationLevel.READ_COMMITTED

    @cached_property
    def _admin(self) -> Any:
        try:
            return AdminClient({**self._cluster.options, "bootstrap.servers": self._cluster.bootstrap_servers})
        except KafkaException as error:
            raise PipelineError(f"cluster.options do not suit the audit's client: {error.args[0].str()}") from error

    def facts(self) -> LogFacts:
        metadata = self._asked("Metadata", lambda: self._admin.list_topics(timeout=TIMEOUT_S))
        names = self._chosen(metadata.topics)
        brokers = metadata.brokers
        leaders = {}
        for name in names:
            for index, partition in metadata.topics[name].partitions.items():
                if partition.leader not in brokers:
                    raise PipelineError(f"{name}-{index} has no leader now; an audit needs all partitions")
                leaders[Partition(name, index)] = (brokers[partition.leader].host, brokers[partition.leader].port)
        starts = self.offsets(leaders, OffsetSpec.earliest())
        ends = self.offsets(leaders, OffsetSpec.latest())
        scopes = {partition: Scope(starts[partition], ends[partition]) for partition in leaders}
        return LogFacts(scopes, self._compacted(names), leaders)

    def starts(self, partitions: Mapping[Partition, Any]) -> dict[Partition, int]:
        """Log start offsets now."""
        return self.offsets(partitions, OffsetSpec.earliest())

    def offsets(self, partitions: Mapping[Partition, Any], spec: Any) -> dict[Partition, int]:
        asked = {TopicPartition(*partition): spec for partition in partitions}
        futures = self._admin.list_offsets(asked, isolation_level=self._isolation, request_timeout=TIMEOUT_S)
        answers = {Partition(each.topic, each.partition): future for each, future in futures.items()}
        return {partition: self._asked("ListOffsets", future.result).offset for partition, future in answers.items()}

    def _chosen(self, existing: Mapping[str, Any]) -> list[str]:
        if self._topics.pattern is not None:
            names = [name for name in existing if re.fullmatch(self._topics.pattern, name)]
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
