"""The smoke test beside a cluster that grows while it runs. Against a real cluster: `tests/deploy/chart/`."""

import contextlib
from collections.abc import Iterator

import pytest

from libs.client.metadata import Broker, ClusterView, Partition
from services.operations import smoke

ONE, TWO = Broker(1, "first.example.net", 9093), Broker(2, "second.example.net", 9094)


class GrowingCluster:
    """A cluster of one broker, in which a second one leads each topic that is made."""

    def __init__(self) -> None:
        self.made = ""
        self.stored: dict[str, bytes] = {}

    @contextlib.contextmanager
    def connected(self, host: str, port: int) -> Iterator[str]:
        yield host

    def metadata(self, connection: object, topics: list[str]) -> ClusterView:
        if not self.made:
            return ClusterView({1: ONE}, (), {})
        return ClusterView({1: ONE, 2: TWO}, (Partition(self.made, 0, 2, (2,)),), {})

    def create_topic(self, connection: object, topic: str, partitions: int) -> None:
        self.made = topic

    def produce(self, connection: str, partition: Partition, value: bytes) -> int:
        self.stored[connection] = value
        return 0

    def fetch(self, connection: str, partition: Partition, offset: int) -> bytes | None:
        return self.stored.get(connection)


def test_a_broker_that_comes_meanwhile_gets_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = GrowingCluster()
    monkeypatch.setattr(smoke, "KafkaConnection", Connections(cluster))
    monkeypatch.setattr(smoke, "delete_topic", lambda connection, topic: None)
    for name in ("metadata", "create_topic", "produce", "fetch"):
        monkeypatch.setattr(smoke, name, getattr(cluster, name))
    said: list[str] = []
    smoke.smoke(ONE.host, ONE.port, 5.0, said.append)
    assert cluster.stored.keys() == {TWO.host}
    assert said[-1].endswith("at broker 2 and came back")


class Connections:
    """Stands in for the class of connections: the host is the connection."""

    def __init__(self, cluster: GrowingCluster) -> None:
        self._cluster = cluster

    def __call__(self, host: str, port: int) -> contextlib.AbstractContextManager[str]:
        return self._cluster.connected(host, port)
