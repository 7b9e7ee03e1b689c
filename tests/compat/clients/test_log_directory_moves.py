"""Kafka's own tools move replicas between the log directories of a node, while producers and consumers go on."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.compat.clients.admin import Admin
from tests.compat.clients.five_clients import consume
from tests.compat.clients.log_directories import directories, elsewhere, where
from tests.compat.clients.replica_placement import fill, place, reassign
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

FASTER = 1 << 40


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two storage nodes with two log directories each."""
    root = tmp_path_factory.mktemp("directories")
    paths = {node: f"{root}/{node}/a,{root}/{node}/b" for node in (1, 2)}
    with LocalCluster(
        storage=2, environment_of={f"storage-{node}": {"PENSTOCK_LOG_DIRS": paths[node]} for node in paths}
    ) as running:
        yield running


@pytest.fixture(scope="module")
def admin(two: LocalCluster) -> Iterator[Admin]:
    opened = Admin(two.bootstrap)
    yield opened
    opened.close()


def plan(path: Path, topic: str, replicas: list[int], log_dirs: list[str]) -> str:
    partition = {"topic": topic, "partition": 0, "replicas": replicas, "log_dirs": log_dirs}
    path.write_text(json.dumps({"version": 1, "partitions": [partition]}), encoding="utf-8")
    return str(path)


class Going:
    """An idempotent producer that goes on: `more` sends some and polls."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2})
        self._topic = topic
        self.sent = 0
        self.failed: list[KafkaError] = []

    def more(self) -> None:
        for _ in range(100):
            self._producer.produce(self._topic, b"%d" % self.sent, on_delivery=self._on_delivery)
            self.sent += 1
        self._producer.poll(0.01)

    def ended(self) -> int:
        assert self._producer.flush(60) == 0
        assert self.failed == []
        return self.sent

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)


def test_kafkas_tool_moves_a_leader_to_another_directory_while_a_producer_goes_on(
    two: LocalCluster, admin: Admin, topic: str, tmp_path: Path
) -> None:
    bootstrap = two.bootstrap
    place(admin, topic, [[1, 2]])
    going = Going(bootstrap, topic)
    for _ in range(50):
        going.more()
    target, stays = elsewhere(bootstrap, topic, 1), where(bootstrap, topic, 2)
    to = plan(tmp_path / "plan.json", topic, [1, 2], [target, "any"])
    said = reassign(bootstrap, "--execute", "--reassignment-json-file", to, "--replica-alter-log-dirs-throttle", "1").text
    assert f"to {target} for replica {topic}-0 with broker 1" in said
    for _ in range(20):
        going.more()
    future = directories(bootstrap, topic)[1][target]
    assert future is not None
    assert future.is_future
    assert future.lag > 0
    said = reassign(bootstrap, "--verify", "--reassignment-json-file", to, "--preserve-throttles").text
    assert f"Reassignment of replica {topic}-0-1 is still in progress" in said
    faster = ("--additional", "--replica-alter-log-dirs-throttle", f"{FASTER}")
    reassign(bootstrap, "--execute", "--reassignment-json-file", to, *faster)

    def arrived() -> bool:
        going.more()
        return where(bootstrap, topic, 1) == target

    eventually(arrived)
    for _ in range(20):
        going.more()
    count = going.ended()
    said = reassign(bootstrap, "--verify", "--reassignment-json-file", to).text
    assert f"Reassignment of replica {topic}-0-1 completed successfully" in said
    assert where(bootstrap, topic, 2) == stays
    assert [int(message.value() or b"") for message in consume(bootstrap, topic, count)] == list(range(count))


def test_a_replica_that_comes_is_made_in_the_directory_that_the_plan_names(
    two: LocalCluster, admin: Admin, topic: str, tmp_path: Path
) -> None:
    bootstrap = two.bootstrap
    place(admin, topic, [[1]])
    fill(bootstrap, topic, 1000)
    # The one that would not be chosen: it has the most, or comes last.
    target = max(directories(bootstrap, topic)[2], key=lambda path: (len(list(Path(path).glob("*-[0-9]"))), path))
    to = plan(tmp_path / "plan.json", topic, [2], [target])
    reassign(bootstrap, "--execute", "--reassignment-json-file", to)
    eventually(lambda: "completed successfully" in reassign(bootstrap, "--verify", "--reassignment-json-file", to).text)
    assert where(bootstrap, topic, 2) == target
    assert len(consume(bootstrap, topic, 1000)) == 1000


def test_a_directory_that_is_not_there_is_refused_with_words(two: LocalCluster, admin: Admin, topic: str, tmp_path: Path) -> None:
    place(admin, topic, [[1]])
    to = plan(tmp_path / "plan.json", topic, [1], ["/not/there"])
    refused = reassign(two.bootstrap, "--execute", "--reassignment-json-file", to, check=False)
    assert "LogDirNotFoundException" in refused.text + refused.stderr.decode()
