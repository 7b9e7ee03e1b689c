"""Replicas move by themselves: away from a node that is decommissioned with Kafka's own tool, and on to one that joins."""

import json
import re
from typing import Any

from confluent_kafka.admin import NewTopic

from tests.compat.clients.admin import Admin
from tests.compat.clients.five_clients import consume
from tests.compat.clients.replica_placement import Layout, fill, layout
from tests.compat.kafka.tools import ToolResult, run_tool
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.system.faults.produce_run import ProduceRun

WAIT_S = 60.0
FORGETS = {"PENSTOCK_FENCED_BROKER_S_MAX": "0"}
"""The setting of a gateway whose Metadata names only nodes that are alive, as librdkafka has no other list of them."""


def configure(bootstrap: str, *arguments: str, check: bool = True) -> ToolResult:
    of = ("--entity-type", "brokers", "--bootstrap-server", bootstrap, "--alter")
    return run_tool("kafka-configs", *of, *arguments, check=check)


def described(bootstrap: str, topic: str) -> str:
    return run_tool("kafka-topics", "--bootstrap-server", bootstrap, "--describe", "--topic", topic).text


def balancing(cluster: LocalCluster) -> Any:
    return json.loads(cluster.admin("controller-1", "/debug/balancing"))


def holders(found: Layout) -> set[int]:
    return {node for replicas in found.values() for node in replicas}


def test_a_node_is_emptied_under_load_nothing_is_lost_and_removing_the_config_undoes_it() -> None:
    with LocalCluster(storage=4, environment_of={"gateway-1": FORGETS}) as cluster:
        bootstrap, admin = cluster.bootstrap, Admin(cluster.bootstrap)
        admin.create("loaded", partitions=6, replicas=3)
        admin.create_all([NewTopic("alone", 2, replica_assignment=[[4], [4]])])
        fill(bootstrap, "alone", 1000)
        assert 4 in holders(layout(admin, "loaded"))
        with ProduceRun(bootstrap, "loaded", partitions=6) as run:
            run.advance()
            said = configure(bootstrap, "--entity-name", "4", "--add-config", "decommission=true").text
            assert "Completed updating config for broker 4." in said
            eventually(lambda: balancing(cluster)["decommissioning"]["4"]["state"] == "empty", WAIT_S)
            run.advance()
            run.finish()
        for topic in ("loaded", "alone"):
            output = described(bootstrap, topic)
            assert len(re.findall(r"Leader: [123]\tReplicas: [123,]+\tIsr: [123,]+\t", output)) == output.count("Partition: ")
        assert {len(replicas) for replicas in layout(admin, "loaded").values()} == {3}
        admin.create("later", partitions=4, replicas=3)
        assert holders(layout(admin, "later")) == {1, 2, 3}
        refused = configure(bootstrap, "--entity-name", "3", "--add-config", "decommission=true", check=False)
        assert "Broker 3 cannot be decommissioned" in refused.text + refused.stderr.decode()
        cluster.kill("storage-4")
        run.check(bootstrap)
        assert len(consume(bootstrap, "alone", 1000)) == 1000
        cluster.start("storage-4")
        cluster.wait_ready(["storage-4"])
        eventually(lambda: 4 in admin.client.list_topics(timeout=WAIT_S).brokers, WAIT_S)
        configure(bootstrap, "--entity-name", "4", "--delete-config", "decommission")
        assert balancing(cluster)["decommissioning"] == {}
        admin.create("last", partitions=4, replicas=3)
        assert 4 in holders(layout(admin, "last"))
        admin.close()


def test_a_node_that_joins_gets_its_share_where_self_balancing_applies() -> None:
    with LocalCluster(storage=4, environment_of={"gateway-1": FORGETS}) as cluster:
        bootstrap, admin = cluster.bootstrap, Admin(cluster.bootstrap)
        cluster.kill("storage-4")
        eventually(lambda: 4 not in admin.client.list_topics(timeout=WAIT_S).brokers, WAIT_S)
        admin.create("t", partitions=8, replicas=3)
        settings = "self.balancing.mode=suggest,self.balancing.away.ms=1000,self.balancing.moves.max=2"
        configure(bootstrap, "--entity-default", "--add-config", settings)
        with ProduceRun(bootstrap, "t", partitions=8) as run:
            run.advance()
            cluster.start("storage-4")
            cluster.wait_ready(["storage-4"])
            suggested = eventually(lambda: balancing(cluster)["planned"], WAIT_S)
            assert {4} == {node for step in suggested if step["copies"] for node in set(step["to"]) - set(step["replicas"])}
            assert holders(layout(admin, "t")) == {1, 2, 3}
            configure(bootstrap, "--entity-default", "--add-config", "self.balancing.mode=apply")
            eventually(lambda: sum(4 in replicas for replicas in layout(admin, "t").values()) == 6, WAIT_S)
            eventually(lambda: not balancing(cluster)["planned"] and not balancing(cluster)["moving"], WAIT_S)
            run.advance()
            run.finish()
        partitions = admin.client.list_topics("t", timeout=WAIT_S).topics["t"].partitions.values()
        assert sorted(sum(p.leader == node for p in partitions) for node in (1, 2, 3, 4)) == [2, 2, 2, 2]
        assert sorted(sum(node in p.replicas for p in partitions) for node in (1, 2, 3, 4)) == [6, 6, 6, 6]
        run.check(bootstrap)
        admin.close()
