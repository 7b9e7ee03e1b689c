"""The output of Kafka's tools for partitions with three replicas while nodes are gone."""

import re

from confluent_kafka.admin import PartitionMetadata

from tests.compat.clients.admin import Admin
from tests.compat.kafka.tools import run_tool, run_tools
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

WAIT_S = 60.0
LINE = re.compile(r"Partition: (\d+)\tLeader: (\w+)\tReplicas: ([\d,]+)\tIsr: ([\d,]*)")


Shown = dict[int, tuple[str, set[str], set[str]]]
"""(leader, replicas, ISR) of each partition."""


def shown(bootstrap: str, *questions: tuple[str, ...]) -> list[Shown]:
    """The output of `kafka-topics --describe` for each of these arguments."""
    describe = ("kafka-topics", "--bootstrap-server", bootstrap, "--describe")
    return [
        {
            int(index): (leader, set(replicas.split(",")), {node for node in isr.split(",") if node})
            for index, leader, replicas, isr in LINE.findall(result.text)
        }
        for result in run_tools(*((*describe, *question) for question in questions))
    ]


def test_kafka_topics_shows_which_partitions_miss_whom(three: LocalCluster) -> None:
    bootstrap, everyone = three.bootstrap, {"1", "2", "3"}
    admin = Admin(bootstrap)
    admin.create("three", partitions=3, replicas=3)
    admin.create("one", partitions=3, replicas=1)
    described, *lacking = shown(
        bootstrap,
        ("--topic", "three"),
        ("--under-replicated-partitions",),
        ("--unavailable-partitions",),
        ("--under-min-isr-partitions",),
    )
    assert {index: (replicas, isr) for index, (_, replicas, isr) in described.items()} == dict.fromkeys(
        range(3), (everyone, everyone)
    )
    assert lacking == [{}, {}, {}]

    three.kill("storage-3")

    def partitions(topic: str) -> dict[int, PartitionMetadata]:
        return admin.client.list_topics(topic, timeout=WAIT_S).topics[topic].partitions

    def of_three() -> dict[int, PartitionMetadata]:
        return partitions("three")

    def leaderless() -> int:
        """The number of partitions of the other topic that lack a leader: one of them lay on node 3 alone."""
        return sum(p.leader < 0 for p in partitions("one").values())

    eventually(lambda: all(set(p.isrs) == {1, 2} and p.leader in (1, 2) for p in of_three().values()), WAIT_S)
    eventually(lambda: leaderless() == 1, WAIT_S)
    missing, under, at, described, gone = shown(
        bootstrap,
        ("--under-replicated-partitions", "--topic", "three"),
        ("--under-min-isr-partitions", "--topic", "three"),
        ("--at-min-isr-partitions", "--topic", "three"),
        ("--topic", "one"),
        ("--unavailable-partitions",),
    )
    assert {index: (replicas, isr) for index, (_, replicas, isr) in missing.items()} == dict.fromkeys(
        range(3), (everyone, {"1", "2"})
    )
    assert under == {}
    assert set(at) == {0, 1, 2}
    (alone,) = [index for index, (_, replicas, _) in described.items() if replicas == {"3"}]
    assert {index: (leader, replicas) for index, (leader, replicas, _) in gone.items()} == {alone: ("none", {"3"})}
    (unled,) = [p for p in partitions("one").values() if p.leader < 0]
    assert (unled.id, unled.error.name()) == (alone, "LEADER_NOT_AVAILABLE")

    three.kill("storage-2")
    eventually(lambda: all(list(p.isrs) == [1] and p.leader == 1 for p in of_three().values()), WAIT_S)
    (under,) = shown(bootstrap, ("--under-min-isr-partitions", "--topic", "three"))
    assert set(under) == {0, 1, 2}
    endpoints = run_tool("kafka-cluster", "list-endpoints", "--bootstrap-server", bootstrap).text
    assert [line.split()[0] for line in endpoints.splitlines()[1:]] == ["1"]

    for name in ("storage-2", "storage-3"):
        three.start(name)
    three.wait_ready()
    eventually(lambda: all(set(p.isrs) == {1, 2, 3} for p in of_three().values()) and leaderless() == 0, WAIT_S)
    assert shown(bootstrap, ("--under-replicated-partitions",), ("--unavailable-partitions",)) == [{}, {}]
    admin.close()
