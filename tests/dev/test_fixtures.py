"""`penstock.testing` in users' tests."""

import os
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest
from penstock.testing import Cluster, ClusterFailed

from tests.dev.clients import administrator, consume, produce
from tests.support.open_files import open_files
from tests.support.polling import eventually, rounds
from tests.support.ports import Reservation, reserve_ports


def test_a_test_has_a_cluster_of_its_own(penstock_cluster: Cluster, penstock_session_cluster: Cluster) -> None:
    produce(penstock_cluster.bootstrap_servers, "mine", [b"1"])
    assert consume(penstock_cluster.bootstrap_servers, "mine", 1) == [b"1"]
    assert "mine" not in administrator(penstock_session_cluster.bootstrap_servers).list_topics(timeout=30).topics


@pytest.mark.penstock(broker_configs={"num.partitions": 3})
def test_a_marker_gives_the_arguments(penstock_cluster: Cluster) -> None:
    produce(penstock_cluster.bootstrap_servers, "mine", [b"1"])
    assert len(administrator(penstock_cluster.bootstrap_servers).list_topics(timeout=30).topics["mine"].partitions) == 3


def temporary_folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("penstock-dev-*"))


def sockets_of(pid: int) -> set[Path]:
    """The temporary folders that a process has files open in."""
    files = open_files(pid)
    return {folder for folder in temporary_folders() if any(file.startswith(f"{folder}/") for file in files)}


def test_nothing_is_left_of_a_cluster() -> None:
    with Cluster() as cluster:
        pid, folders = cluster.pid, sockets_of(cluster.pid)
        assert folders
    assert not os.path.exists(f"/proc/{pid}")
    assert not folders & temporary_folders()


def test_nothing_is_left_of_a_killed_cluster() -> None:
    cluster = Cluster().start()
    pid, folders = cluster.pid, sockets_of(cluster.pid)
    assert folders
    cluster.kill()
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))
    assert not folders & temporary_folders()


def test_a_wrong_config_fails_with_its_name() -> None:
    with pytest.raises(ClusterFailed, match=r"no\.such=1: Unknown broker config name: no\.such"):
        Cluster(broker_configs={"no.such": 1}).start()


def test_a_cluster_that_does_not_run_has_no_address() -> None:
    with pytest.raises(ClusterFailed, match="start it first"):
        _ = Cluster().bootstrap_servers


def test_a_cluster_has_the_ports_that_it_is_given_and_keeps_them_while_it_is_down() -> None:
    ports = unused_ports(2)
    first = ports.first
    cluster = Cluster(port=first).start()
    assert cluster.bootstrap_servers == f"127.0.0.1:{first}"
    cluster.kill()
    for port in (first, first + 1):
        with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
            other.bind(("127.0.0.1", port))
    with cluster:
        assert cluster.bootstrap_servers == f"127.0.0.1:{first}"
    assert are_unused(first, 2)
    ports.release()


def unused_ports(count: int) -> Reservation:
    """A reservation alone may have ports whose last connections are in TIME_WAIT: servers may take them, and others may not."""
    for _ in rounds("ports without connections"):
        ports = reserve_ports(count)
        if are_unused(ports.first, count):
            break
        ports.release()
    return ports


def are_unused(first: int, count: int) -> bool:
    for port in range(first, first + count):
        with socket.socket() as other:
            try:
                other.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


def test_a_port_that_is_taken_is_named() -> None:
    with Cluster() as cluster:
        port = int(cluster.bootstrap_servers.rpartition(":")[2])
        with pytest.raises(ClusterFailed, match=f"port {port} or {port + 1} of 127.0.0.1 is taken"):
            Cluster(port=port).start()


def test_a_restart_without_a_folder_is_refused() -> None:
    with Cluster() as cluster, pytest.raises(ClusterFailed, match="a restart goes on with the data, and this cluster keeps none"):
        cluster.restart()


def test_a_folder_serves_one_cluster_at_a_time(tmp_path: Path) -> None:
    with Cluster(data=tmp_path), pytest.raises(ClusterFailed, match="which another penstock dev uses"):
        Cluster(data=tmp_path).start()


def test_a_fork_that_unwinds_ends_nothing_of_its_parents_cluster() -> None:
    for end in (Cluster.stop, Cluster.kill):
        with Cluster() as cluster:
            child = os.fork()
            if child == 0:
                end(cluster)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            produce(cluster.bootstrap_servers, "mine", [b"1"])
            assert consume(cluster.bootstrap_servers, "mine", 1) == [b"1"]


def test_a_relative_folder_is_the_one_of_the_working_directory_at_that_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    monkeypatch.chdir(tmp_path / "first")
    with Cluster():  # the process that clusters are forked from may have begun here
        monkeypatch.chdir(tmp_path / "second")
        cluster = Cluster(data="d")
        monkeypatch.chdir(tmp_path)
        with cluster:
            assert sorted(tmp_path.glob("*/d")) == [tmp_path / "second" / "d"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"data": b"x"}, "data is b'x'; expected the path of a folder"),
        ({"data": None}, "data is None; expected the path of a folder"),
        ({"broker_configs": ["num.partitions=3"]}, r"broker_configs is \['num.partitions=3'\]; expected a dict"),
        ({"log_level": "loud"}, "log_level is 'loud'; expected trace, debug, info, warning or error"),
        ({"port": "9092"}, "port is '9092'; expected 0 to 65534: the broker has the port after it"),
        ({"port": 65_535}, "port is 65535; expected 0 to 65534: the broker has the port after it"),
        ({"log_level": 3}, "log_level is 3; expected trace, debug, info, warning or error"),
    ],
)
def test_a_wrong_argument_is_said_in_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ClusterFailed, match=sentence):
        Cluster(**arguments).start()
