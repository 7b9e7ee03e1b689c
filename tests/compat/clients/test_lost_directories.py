"""A storage node comes back without what it had: with an empty log directory in the place of a lost one."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.clients.admin import Admin
from tests.compat.clients.five_clients import consume
from tests.compat.clients.replica_placement import fill, place
from tests.compat.kafka.tools import run_tool
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

WAIT_S = 60.0


@pytest.fixture
def roomy(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three storage nodes, the third with two log directories."""
    directories = {"PENSTOCK_LOG_DIRS": f"{tmp_path}/a,{tmp_path}/b"}
    with LocalCluster(storage=3, environment_of={"storage-3": directories}) as running:
        yield running


@pytest.fixture
def admin(roomy: LocalCluster) -> Iterator[Admin]:
    opened = Admin(roomy.bootstrap)
    yield opened
    opened.close()


def in_sync(admin: Admin, topic: str) -> list[set[int]]:
    found = admin.client.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
    return [set(found[index].isrs) for index in sorted(found)]


def leaders(admin: Admin, topic: str) -> list[int]:
    found = admin.client.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
    return [found[index].leader for index in sorted(found)]


def values(bootstrap: str, topic: str, count: int, partition: int) -> list[int]:
    return sorted(int(message.value() or b"") for message in consume(bootstrap, topic, count, partition=partition))


def copies(path: Path, topic: str) -> list[str]:
    return sorted(one.name for one in path.iterdir() if one.name.startswith(topic))


def test_a_node_whose_log_directory_was_lost_copies_everything_anew(roomy: LocalCluster, admin: Admin) -> None:
    place(admin, "all", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    fill(roomy.bootstrap, "all", 3000, partitions=3)
    eventually(lambda: in_sync(admin, "all") == [{1, 2, 3}] * 3, WAIT_S)
    roomy.kill("storage-2")
    shutil.rmtree(roomy.data_directory("storage-2") / "logs")
    roomy.start("storage-2")
    roomy.wait_ready(["storage-2"])
    eventually(lambda: in_sync(admin, "all") == [{1, 2, 3}] * 3, WAIT_S)
    assert "copied anew" in roomy.log("storage-2")
    for other in ("storage-1", "storage-3"):
        roomy.kill(other)
    eventually(lambda: leaders(admin, "all") == [2, 2, 2], WAIT_S)
    for other in ("storage-1", "storage-3"):  # by default, two must have a record before anybody sees it
        roomy.start(other)
    for partition in range(3):
        assert values(roomy.bootstrap, "all", 1000, partition) == list(range(partition, 3000, 3))


def test_one_of_two_directories_is_lost_and_what_comes_back_with_it_later_is_set_aside(
    roomy: LocalCluster, admin: Admin, tmp_path: Path
) -> None:
    place(admin, "half", [[1, 2, 3]] * 4)
    fill(roomy.bootstrap, "half", 400, partitions=4)
    eventually(lambda: in_sync(admin, "half") == [{1, 2, 3}] * 4, WAIT_S)
    lost, left = tmp_path / "a", tmp_path / "b"
    assert len(copies(lost, "half")) == len(copies(left, "half")) == 2
    roomy.kill("storage-3")
    lost.rename(tmp_path / "kept")
    roomy.start("storage-3")
    roomy.wait_ready(["storage-3"])
    eventually(lambda: in_sync(admin, "half") == [{1, 2, 3}] * 4, WAIT_S)
    assert len(copies(lost, "half") + copies(left, "half")) == 4
    fill(roomy.bootstrap, "half", 400, partitions=4)

    roomy.kill("storage-3")
    here = copies(lost, "half")
    shutil.rmtree(lost)
    (tmp_path / "kept").rename(lost)
    roomy.start("storage-3")
    roomy.wait_ready(["storage-3"])
    eventually(lambda: in_sync(admin, "half") == [{1, 2, 3}] * 4, WAIT_S)
    for partition in range(4):
        assert len(values(roomy.bootstrap, "half", 200, partition)) == 200
    aside = [name for name in copies(lost, "half") if name.endswith("-stray")]
    assert len(aside) == 2 - len(here), copies(lost, "half")


def test_the_last_in_sync_waits_for_its_directory_until_an_operator_elects_another(roomy: LocalCluster, admin: Admin) -> None:
    place(admin, "last", [[2, 3]])
    place(admin, "only", [[2]])
    fill(roomy.bootstrap, "last", 100)
    eventually(lambda: in_sync(admin, "last") == [{2, 3}], WAIT_S)
    roomy.kill("storage-3")
    eventually(lambda: in_sync(admin, "last") == [{2}], WAIT_S)
    fill(roomy.bootstrap, "last", 10)
    roomy.kill("storage-2")
    shutil.rmtree(roomy.data_directory("storage-2") / "logs")
    for name in ("storage-2", "storage-3"):
        roomy.start(name)
    roomy.wait_ready(["storage-2", "storage-3"])
    eventually(lambda: "log directory of a last in-sync replica is gone" in roomy.log("controller-1"), WAIT_S)
    assert leaders(admin, "last") == [-1]
    assert "kafka-leader-election" in roomy.log("storage-2")
    asked = ("--election-type", "unclean", "--topic", "last", "--partition", "0")
    done = run_tool("kafka-leader-election", "--bootstrap-server", roomy.bootstrap, *asked)
    assert "Successfully completed leader election (UNCLEAN)" in done.text
    eventually(lambda: in_sync(admin, "last") == [{2, 3}], WAIT_S)
    assert values(roomy.bootstrap, "last", 100, 0) == list(range(100))

    asked = ("--election-type", "unclean", "--topic", "only", "--partition", "0")
    refused = run_tool("kafka-leader-election", "--bootstrap-server", roomy.bootstrap, *asked, check=False)
    assert "EligibleLeadersNotAvailableException" in refused.text + refused.stderr.decode()
    admin.delete("only")
    place(admin, "only", [[2]])
    fill(roomy.bootstrap, "only", 10)
