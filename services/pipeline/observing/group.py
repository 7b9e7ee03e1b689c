"""The Kafka group of a stream: its offsets are those of the finished micro-batches, so that the usual tools show the lag."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from libs.client.security import SecurityProblem
from services.pipeline.errors import PipelineError
from services.pipeline.observing.lag import Position
from services.pipeline.spark.cluster import ClusterSettings
from services.pipeline.spark.cluster_security import librdkafka_properties

TIMEOUT_S = 15.0
READ_S = 30.0
"""For the ages of all partitions of a question together."""
FETCH_BYTES = 16 << 10
"""What a question for the age of a partition's next record reads of it, unless a batch is larger."""
ASKED_TOGETHER = 100
"""Partitions. Each may have a batch in memory until it is read."""
CHECKPOINT_LENGTH_MAX = 1000
SHARED_OPTIONS = ("client.id", "client.rack", "security.protocol")
"""Of `cluster.options`, which are those of Kafka's Java clients: what librdkafka understands in the same way."""


@dataclass(frozen=True)
class Committed:
    """What a group has of one partition. The rest says which micro-batch of which checkpoint wrote it and when, if one did."""

    offset: int
    batch: int | None = None
    at_ms: int | None = None
    checkpoint: str | None = None


class StreamGroup:
    """Commits and reads offsets without joining the group. Raises PipelineError.

    `checkpoint`: the path of the stream's, which goes with each commit, unless it is too long for the metadata of an offset.
    """

    def __init__(self, cluster: ClusterSettings, group: str, checkpoint: str = "") -> None:
        self.group = group
        self._origin = {"checkpoint": checkpoint} if 0 < len(checkpoint) <= CHECKPOINT_LENGTH_MAX else {}
        shared = {name: value for name, value in cluster.options.items() if name in SHARED_OPTIONS}
        # What fails is raised; librdkafka's own log has several lines for it each second.
        named = {**shared, "bootstrap.servers": cluster.bootstrap_servers}
        options = {**named, "log_level": 0, **_security(cluster)}
        self._servers = cluster.bootstrap_servers
        own = {
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
            # Only the next record of a partition is wanted. A larger batch comes whole.
            "fetch.message.max.bytes": FETCH_BYTES,
            "queued.min.messages": 1,
        }
        try:
            self._admin: Any = AdminClient(options)
            self._consumer: Any = Consumer({**options, **own})
        except KafkaException as error:
            raise PipelineError(f"group {group} has no client for {named}: {error.args[0].str()}") from error

    def close(self) -> None:
        """Nothing can be asked any more.

        An AdminClient has no `close`: it ends with its last reference, and Spark keeps the observers of streams that have ended.
        """
        self._consumer.close()
        self._admin = self._consumer = None

    def commit(self, ends: Mapping[Position, int], batch: int) -> None:
        metadata = json.dumps({"batch": batch, "at_ms": int(time.time() * 1000), **self._origin})
        offsets = [TopicPartition(*position, end, metadata) for position, end in ends.items()]
        for each in self._asked("OffsetCommit", lambda: self._consumer.commit(offsets=offsets, asynchronous=False)):
            if each.error is not None:
                raise PipelineError(f"group {self.group} does not take {each.topic}-{each.partition}: {each.error.str()}")

    def committed(self) -> dict[Position, Committed]:
        """Empty if there is no such group."""
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group)], request_timeout=TIMEOUT_S)
        answer = self._asked("OffsetFetch", asked[self.group].result)
        found = [each for each in answer.topic_partitions if each.offset >= 0]
        return {(each.topic, each.partition): _committed(each) for each in found}

    def with_new_partitions(self, reached: Mapping[Position, int]) -> dict[Position, int]:
        """`reached`, and the log start of each partition that its topics have got since: streams read these from there."""
        topics = {topic for topic, _ in reached}
        known = self._asked("Metadata", lambda: self._admin.list_topics(timeout=TIMEOUT_S)).topics if topics else {}
        of_topics = {(topic, partition) for topic in topics & known.keys() for partition in known[topic].partitions}
        return {**self._list_offsets(of_topics - reached.keys(), OffsetSpec.earliest()), **reached}

    def log_ends(self, positions: Iterable[Position]) -> dict[Position, int]:
        """Last stable offsets."""
        return self._list_offsets(positions, OffsetSpec.latest())

    def _list_offsets(self, positions: Iterable[Position], spec: OffsetSpec) -> dict[Position, int]:
        asked = {TopicPartition(*position): spec for position in positions}
        if not asked:
            return {}
        futures = self._admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT_S)
        return {
            (each.topic, each.partition): self._asked("ListOffsets", future.result).offset for each, future in futures.items()
        }

    def timestamps(self, offsets: Mapping[Position, int]) -> dict[Position, int]:
        """Milliseconds of the first record at or after each offset; left out where the log has none, but say transaction markers.

        Raises PipelineError if the cluster does not tell in time: an age that is unknown is not 0.
        """
        found: dict[Position, int] = {}
        asked, deadline = list(offsets.items()), time.monotonic() + READ_S
        try:
            for first in range(0, len(asked), ASKED_TOGETHER):
                found.update(self._timestamps_together(dict(asked[first : first + ASKED_TOGETHER]), deadline))
        finally:
            self._consumer.unassign()
        return found

    def _timestamps_together(self, offsets: Mapping[Position, int], deadline: float) -> dict[Position, int]:
        found: dict[Position, int] = {}
        waited, refused = set(offsets), ""
        self._consumer.assign([TopicPartition(*position, offset) for position, offset in offsets.items()])
        while waited and time.monotonic() < deadline:
            for message in self._consumer.consume(num_messages=1, timeout=0.5):
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    refused = f": {error.str()}"
                    continue
                position = (message.topic(), message.partition())
                if position not in waited:
                    continue  # it was asked for before
                waited.remove(position)
                if error is None:
                    found[position] = int(message.timestamp()[1])
                # Of what is assigned, librdkafka goes on fetching while it waits for the others.
                self._consumer.incremental_unassign([TopicPartition(*position)])
        if waited:
            raise PipelineError(
                f"{self._servers} did not return the next records of {len(waited)} partitions in {READ_S:.0f} s{refused}"
            )
        return found

    def _asked(self, what: str, answer: Any) -> Any:
        try:
            return answer()
        except KafkaException as error:
            raise PipelineError(f"{self._servers} does not answer {what} of group {self.group}: {error.args[0].str()}") from error


def _security(cluster: ClusterSettings) -> dict[str, str]:
    """Raises PipelineError."""
    try:
        return librdkafka_properties(cluster.security)
    except SecurityProblem as error:
        raise PipelineError(f"cluster.security: {error}") from None


def _committed(found: Any) -> Committed:
    try:
        metadata = json.loads(found.metadata or "{}")
        return Committed(found.offset, metadata.get("batch"), metadata.get("at_ms"), metadata.get("checkpoint"))
    except (ValueError, AttributeError):
        return Committed(found.offset)
