"""`penstock.testing` in users' tests."""

import os
import tempfile
from pathlib import Path

import pytest
from penstock.testing import Cluster, ClusterFailed

from tests.dev.clients import administrator, consume, produce
from tests.support.polling import eventually


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
    links = [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd") if name.isdecimal()]
    return {folder for folder in temporary_folders() if any(link.startswith(f"{folder}/") for link in links)}


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


def test_a_folder_serves_one_cluster_at_a_time(tmp_path: Path) -> None:
    with Cluster(data=tmp_path), pytest.raises(ClusterFailed, match="which another penstock dev uses"):
        Cluster(data=tmp_path).start()
