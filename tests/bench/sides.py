"""The two things that are compared: Penstock and Apache Kafka, behind the same few questions."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.bench.load import Address
from tests.support.polling import eventually


@dataclass
class Side:
    """One running system. `topic_configs` name its durability, so that figures say what was compared."""

    name: str
    bootstrap: str
    topic_configs: dict[str, str] = field(default_factory=dict)
    durability: str = ""
    pids: dict[str, int] = field(default_factory=dict)
    """Its processes on the data path."""
    log_directory: Path = Path()
    """Of the only server that has logs."""
    stopped: Callable[[], AbstractContextManager[None]] = nullcontext
    """That server is down meanwhile: its files may be put in place."""
    nodes: tuple[int, ...] = ()
    """Of a cluster: each has a replica of every partition, and they lead in turn. Else there is one, wherever."""
    other_pids: dict[str, int] = field(default_factory=dict)
    """All its other processes. They count where the cost of the whole system is told."""

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})

    def create_topic(self, topic: str, partitions: int, configs: dict[str, str] | None = None) -> None:
        wanted = {**self.topic_configs, **(configs or {})}
        self.admin.create_topics([self._new_topic(topic, partitions, wanted)])[topic].result(timeout=30)
        self.wait_for_leaders(topic, partitions)

    def _new_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> NewTopic:
        if not self.nodes:
            return NewTopic(topic, partitions, 1, config=configs)
        replicas = [[*self.nodes[first:], *self.nodes[:first]] for first in range(len(self.nodes))]
        assigned = [replicas[index % len(replicas)] for index in range(partitions)]
        return NewTopic(topic, partitions, replica_assignment=assigned, config=configs)

    def wait_for_leaders(self, topic: str, partitions: int) -> list[Address]:
        return eventually(lambda: found if len(found := self.leaders(topic)) == partitions else [], 30)

    def delete_topic(self, topic: str) -> None:
        try:
            self.admin.delete_topics([topic])[topic].result(timeout=30)
        except KafkaException as error:
            raise RuntimeError(f"{self.name}: cannot delete {topic}") from error

    def leaders(self, topic: str) -> list[Address]:
        """The address that a client would use for each partition, as far as each has a leader."""
        metadata = self.admin.list_topics(topic, timeout=10)
        brokers = metadata.brokers
        found = []
        for _, partition in sorted(metadata.topics[topic].partitions.items()):
            if partition.leader in brokers:
                broker = brokers[partition.leader]
                found.append((broker.host, broker.port))
        return found
