"""The smoke test beside a cluster that grows while it runs. Against a real cluster: `tests/deploy/chart/`."""

import contextlib
from collections.abc import Iterator

import pytest

from libs.client.metadata import Broker, ClusterView, Partition
from libs.telemetry.tracing.span import SpanContext
from libs.wire.errors import ErrorCode
from services.operations import smoke
from services.operations.requests import Refused

ONE, TWO = Broker(1, "first.example.net", 9093), Broker(2, "second.example.net", 9094)


class GrowingCluster:
    """A cluster of one broker, in which a second one leads each topic that is made."""

    def __init__(self) -> None:
        self.made = ""
        self.stored: dict[str, bytes] = {}
        self.contexts: list[SpanContext] = []

    @contextlib.contextmanager
    def connected(self, host: str, port: int) -> Iterator[str]:
        yield host

    def metadata(self, connection: object, topics: list[str]) -> ClusterView:
        if not self.made:
            return ClusterView({1: ONE}, (), {})
        return ClusterView({1: ONE, 2: TWO}, (Partition(self.made, 0, 2, (2,)),), {})

    def create_topic(self, connection: object, topic: str, partitions: int) -> None:
        self.made = topic

    def produce(self, connection: str, partition: Partition, value: bytes, context: SpanContext) -> int:
        self.contexts.append(context)
        self.stored[connection] = value
        return 0

    def fetch(self, connection: str, partition: Partition, offset: int) -> bytes | None:
        return self.stored.get(connection)


class MovingCluster(GrowingCluster):
    """Its second broker gives up the leadership once it has the record: the first one, a follower until then, has it too."""

    def __init__(self, refused: str) -> None:
        """`refused`: the request that the second broker refuses from then on."""
        super().__init__()
        self._refused = refused
        self._has_moved = False
        self.produced = 0

    def metadata(self, connection: object, topics: list[str]) -> ClusterView:
        view = super().metadata(connection, topics)
        moved = tuple(Partition(each.topic, each.index, 1, (1, 2)) for each in view.partitions)
        return ClusterView(view.brokers, moved, {}) if self._has_moved else view

    def produce(self, connection: str, partition: Partition, value: bytes, context: SpanContext) -> int:
        self._check("produce", connection)
        self.produced += 1
        self.stored = {ONE.host: value, TWO.host: value}
        return 0

    def fetch(self, connection: str, partition: Partition, offset: int) -> bytes | None:
        self._check("fetch", connection)
        return super().fetch(connection, partition, offset)

    def _check(self, request: str, connection: str) -> None:
        if request == self._refused and connection == TWO.host:
            self._has_moved = True
            raise Refused(f"{request}: {ErrorCode.NOT_LEADER_OR_FOLLOWER.name}")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke, "PAUSE_S", 0.0)


def lines_of_a_run(cluster: GrowingCluster, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(smoke, "delete_topic", lambda connection, topic: None)
    for name in ("metadata", "create_topic", "produce", "fetch"):
        monkeypatch.setattr(smoke, name, getattr(cluster, name))
    said: list[str] = []
    smoke.smoke(cluster.connected, ONE.host, ONE.port, 5.0, said.append)
    return said


def test_a_broker_that_comes_meanwhile_gets_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = GrowingCluster()
    said = lines_of_a_run(cluster, monkeypatch)
    assert cluster.stored.keys() == {TWO.host}
    assert "at broker 2 and came back" in said[-1]
    (context,) = cluster.contexts
    assert context.sampled
    assert said[-1].endswith(f"(trace {context.trace_id:032x})"), "an operator looks it up"


@pytest.mark.parametrize("refused", ["produce", "fetch"])
def test_a_leader_that_moves_meanwhile_is_asked_for_again(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right after an installation leaderships move. The record is sent once, and read where it is led then."""
    cluster = MovingCluster(refused)
    said = lines_of_a_run(cluster, monkeypatch)
    assert "at broker 1 and came back" in said[-1]
    assert cluster.produced == 1
