"""`__consumer_offsets` as clients and Kafka's own tools see it, and who owns its shards while coordinators come and go."""

import json

from confluent_kafka.admin import AdminClient

from libs.cluster.topic_names import GROUP_TOPIC
from tests.compat.clients.admin import Admin
from tests.compat.kafka.tools import run_tools
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

LEASE = {"PENSTOCK_MEMBER_TTL_S": "300"}
"""No shard is given to another because a lease ran out."""


def shares(cluster: LocalCluster) -> list[int]:
    """The number of shards of each owner."""
    shards = json.loads(cluster.admin("controller-1", "/debug/image"))["shards"]
    return sorted(shards.get(GROUP_TOPIC, {}).values())


def created_on_demand(admin: AdminClient) -> int:
    return len(admin.list_topics(GROUP_TOPIC, timeout=60).topics[GROUP_TOPIC].partitions)


def test_the_topic_of_groups_as_kafkas_tools_show_it_and_the_shares_of_its_owners() -> None:
    with LocalCluster(storage=3, coordinators=2, environment=LEASE) as cluster:
        admin = Admin(cluster.bootstrap)
        eventually(lambda: created_on_demand(admin.client) == 50)
        of_it = ("--bootstrap-server", cluster.bootstrap, "--describe")
        topic, configs, visible = run_tools(
            ("kafka-topics", *of_it, "--topic", GROUP_TOPIC),
            ("kafka-configs", *of_it, "--entity-type", "topics", "--entity-name", GROUP_TOPIC),
            ("kafka-topics", "--bootstrap-server", cluster.bootstrap, "--list", "--exclude-internal"),
        )
        assert "PartitionCount: 50\tReplicationFactor: 3\t" in topic.text
        for config in ("cleanup.policy=compact", "compression.type=producer", "segment.bytes=104857600", "durability=synced"):
            assert config in topic.text
            assert f"{config} sensitive=false synonyms={{DYNAMIC_TOPIC_CONFIG:{config}" in configs.text
        assert GROUP_TOPIC not in visible.text

        eventually(lambda: shares(cluster) == [25, 25])
        cluster.kill("group_coordinator-1")
        eventually(lambda: shares(cluster) == [50])
        cluster.start("group_coordinator-1")
        eventually(lambda: shares(cluster) == [25, 25])
        cluster.restart("group_coordinator-2")
        eventually(lambda: shares(cluster) == [25, 25])
        cluster.wait_ready()
