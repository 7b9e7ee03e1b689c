"""The two things that are compared: Penstock and Apache Kafka, behind the same few questions."""

import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.bench.load import Address, connect
from tests.support.polling import eventually


def assign_replicas(nodes: Sequence[int], replicas: int, partitions: int) -> list[list[int]]:
    """For each partition its replicas, the leader first. Leaders take turns."""
    turns = [[*nodes[first:], *nodes[:first]][:replicas] for first in range(len(nodes))]
    return [turns[index % len(turns)] for index in range(partitions)]


def partition_folders(logs: Path, topic: str) -> list[Path]:
    """The folders in a log directory that belong to a topic's partitions."""
    return [path for path in logs.iterdir() if path.name.rpartition("-")[0] == topic]


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
    """Of a cluster: they lead in turn. Else there is one, wherever."""
    replicas: int = 0
    """Of a partition in a cluster. 0: each node has one."""
    other_pids: dict[str, int] = field(default_factory=dict)
    """All its other processes. They count where the cost of the whole system is told."""
    authority: Path | None = None
    """The PEM file of who vouches for its servers, if they speak TLS."""
    gateways: tuple[Address, ...] = ()
    """Where clients of several gateways come in, by turns: each serves all partitions. Empty: at the leaders' addresses."""

    def __post_init__(self) -> None:
        secured = {"security.protocol": "SSL", "ssl.ca.location": str(self.authority)} if self.authority else {}
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2, **secured})

    @property
    def load_options(self) -> dict[str, object]:
        """What the load generator in C is told about each connection."""
        return {"tls-authority": self.authority} if self.authority else {}

    def connect(self, address: Address) -> socket.socket:
        connected = connect(address)
        if self.authority is None:
            return connected
        return ssl.create_default_context(cafile=str(self.authority)).wrap_socket(connected, server_hostname=address[0])

    def create_topic(self, topic: str, partitions: int, configs: dict[str, str] | None = None) -> None:
        wanted = {**self.topic_configs, **(configs or {})}
        self.admin.create_topics([self._new_topic(topic, partitions, wanted)])[topic].result(timeout=30)
        self.wait_for_leaders(topic, partitions)

    def _new_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> NewTopic:
        if not self.nodes:
            return NewTopic(topic, partitions, 1, config=configs)
        assigned = assign_replicas(self.nodes, self.replicas or len(self.nodes), partitions)
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
        return [self.gateways[index % len(self.gateways)] for index in range(len(found))] if self.gateways else found
