"""A replica is told to move to another log directory while the controller hangs; its node dies, and loses that directory."""

import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    write_request,
)
from libs.wire.primitives import Writer
from tests.compat.clients.admin import Admin
from tests.compat.clients.five_clients import consume
from tests.compat.clients.log_directories import ReplicaAt, directories, elsewhere, where
from tests.compat.clients.replica_placement import fill, place
from tests.gateway.kafka_client import frame
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

ALTER_REPLICA_LOG_DIRS = 34
COUNT = 1000


@pytest.fixture
def one(tmp_path: Path) -> Iterator[LocalCluster]:
    """A storage node with two log directories."""
    paths = {"PENSTOCK_LOG_DIRS": f"{tmp_path}/a,{tmp_path}/b"}
    with LocalCluster(storage=1, environment_of={"storage-1": paths}) as running:
        yield running


@pytest.fixture
def admin(one: LocalCluster) -> Iterator[Admin]:
    opened = Admin(one.bootstrap)
    yield opened
    opened.close()


def request_move(admin: Admin, topic: str, path: str) -> None:
    """Kafka's tool would ask the controller first."""
    broker = admin.client.list_topics(timeout=60).brokers[1]
    writer = Writer()
    write_request(writer, AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, [0])])]), 1)
    with socket.create_connection((broker.host, broker.port), timeout=60) as connection:
        connection.sendall(frame(ALTER_REPLICA_LOG_DIRS, 1, 1, bytes(writer.buffer)))
        assert connection.recv(4)


def test_acknowledged_records_survive_the_loss_of_a_directory_that_the_controller_does_not_know(
    one: LocalCluster, admin: Admin, topic: str
) -> None:
    bootstrap, controller = one.bootstrap, next(name for name in one.names if name.startswith("controller"))
    place(admin, topic, [[1]])
    fill(bootstrap, topic, COUNT)
    source, target = where(bootstrap, topic, 1), elsewhere(bootstrap, topic, 1)
    one.kill(controller)  # not only stopped: it would hear of it when it goes on
    try:
        request_move(admin, topic, target)
        eventually(lambda: directories(bootstrap, topic)[1][target] == ReplicaAt(0, is_future=True))
        fill(bootstrap, topic, COUNT)
        assert where(bootstrap, topic, 1) == source
        one.kill("storage-1")
        shutil.rmtree(target)
    finally:
        one.start(controller)
    one.start("storage-1")
    one.wait_ready()
    found = consume(bootstrap, topic, 2 * COUNT)
    assert [int(message.value() or b"") for message in found] == [*range(COUNT), *range(COUNT)]


def test_a_move_that_waits_for_the_controller_ends_when_it_is_back(one: LocalCluster, admin: Admin, topic: str) -> None:
    bootstrap, controller = one.bootstrap, next(name for name in one.names if name.startswith("controller"))
    place(admin, topic, [[1]])
    fill(bootstrap, topic, COUNT)
    target = elsewhere(bootstrap, topic, 1)
    one.kill(controller, signal.SIGSTOP)
    try:
        request_move(admin, topic, target)
        eventually(lambda: directories(bootstrap, topic)[1][target] == ReplicaAt(0, is_future=True))
    finally:
        one.kill(controller, signal.SIGCONT)
    eventually(lambda: where(bootstrap, topic, 1) == target)
    assert len(consume(bootstrap, topic, COUNT)) == COUNT
