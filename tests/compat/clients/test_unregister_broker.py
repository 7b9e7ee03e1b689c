"""Kafka's own tool takes a node off the list, and a new machine takes its id."""

import shutil

from tests.compat.clients.admin import Admin
from tests.compat.kafka.tools import ToolResult, run_tool
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

WAIT_S = 60.0


def unregister(cluster: LocalCluster, node_id: int) -> ToolResult:
    arguments = ("unregister", "--bootstrap-server", cluster.bootstrap, "--id", f"{node_id}")
    return run_tool("kafka-cluster", *arguments, check=False)


def listed(cluster: LocalCluster) -> str:
    """The listed brokers, also registered ones that are dead."""
    arguments = ("list-endpoints", "--bootstrap-server", cluster.bootstrap, "--include-fenced-brokers")
    return run_tool("kafka-cluster", *arguments).text


def test_a_dead_node_is_unregistered_and_a_new_machine_takes_its_id(three: LocalCluster) -> None:
    admin = Admin(three.bootstrap)
    admin.create("three", partitions=3, replicas=3)

    def in_sync() -> list[set[int]]:
        return [set(p.isrs) for p in admin.client.list_topics("three", timeout=WAIT_S).topics["three"].partitions.values()]

    eventually(lambda: in_sync() == [{1, 2, 3}] * 3, WAIT_S)
    alive = unregister(three, 3)
    assert "is alive" in alive.text + alive.stderr.decode()
    unknown = unregister(three, 77)
    assert "Broker ID 77 is not currently registered" in unknown.text + unknown.stderr.decode()

    three.kill("storage-3")
    eventually(lambda: in_sync() == [{1, 2}] * 3, WAIT_S)
    assert "fenced" in listed(three)
    done = unregister(three, 3)
    assert "Broker 3 is no longer registered." in done.text, done
    assert len(listed(three).splitlines()) == 3
    again = unregister(three, 3)
    assert "Broker ID 3 is not currently registered" in again.text + again.stderr.decode()

    shutil.rmtree(three.data_directory("storage-3"))
    three.start("storage-3")
    three.wait_ready(["storage-3"])
    eventually(lambda: in_sync() == [{1, 2, 3}] * 3, WAIT_S)
    admin.close()
