"""Kafka's own tool elects a replica that is not in sync, when nobody who is will come back soon."""

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic, PartitionMetadata

from tests.compat.clients.admin import Admin
from tests.compat.clients.five_clients import consume
from tests.compat.kafka.tools import run_tool
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

TOPIC = "given-up"
WAIT_S = 60.0


def produce(cluster: LocalCluster, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in numbers:
        producer.produce(TOPIC, f"{number}", partition=0)
    assert producer.flush(60) == 0


def elect(cluster: LocalCluster) -> str:
    asked = ("--election-type", "unclean", "--topic", TOPIC, "--partition", "0")
    done = run_tool("kafka-leader-election", "--bootstrap-server", cluster.bootstrap, *asked, check=False)
    return done.text + done.stderr.decode()


def test_an_operator_elects_the_one_replica_that_is_left_and_the_others_follow_it(three: LocalCluster) -> None:
    admin = Admin(three.bootstrap)
    alone = {"min.insync.replicas": "1"}
    admin.create_all([NewTopic(TOPIC, 1, replica_assignment=[[1, 2, 3]], config=alone)])

    def partition() -> PartitionMetadata:
        return admin.client.list_topics(TOPIC, timeout=WAIT_S).topics[TOPIC].partitions[0]

    def in_sync(*nodes: int) -> None:
        eventually(lambda: set(partition().isrs) == set(nodes), WAIT_S)

    in_sync(1, 2, 3)
    produce(three, range(100))
    three.kill("storage-3")
    in_sync(1, 2)
    produce(three, range(100, 150))
    for node, left in ((2, (1,)), (1, (1,))):
        three.kill(f"storage-{node}")
        in_sync(*left)
    eventually(lambda: partition().leader < 0, WAIT_S)

    three.start("storage-3")
    three.wait_ready(["storage-3"])
    assert partition().leader < 0, "nobody allowed that"
    assert f"Successfully completed leader election (UNCLEAN) for partitions {TOPIC}-0" in elect(three)
    in_sync(3)
    assert partition().leader == 3
    assert "elected a leader that may lack acknowledged records" in three.log("controller-1")
    kept = [int(message.value() or b"") for message in consume(three.bootstrap, TOPIC, 100)]
    assert kept == list(range(100))
    assert f"Valid replica already elected for partitions {TOPIC}-0" in elect(three)

    for node in (1, 2):
        three.start(f"storage-{node}")
    three.wait_ready()
    in_sync(1, 2, 3)
    produce(three, range(200, 210))
    found = [int(message.value() or b"") for message in consume(three.bootstrap, TOPIC, 110)]
    assert found == [*range(100), *range(200, 210)]
    admin.close()


def test_nobody_is_elected_while_no_replica_lives(three: LocalCluster) -> None:
    admin = Admin(three.bootstrap)
    admin.create_all([NewTopic(TOPIC, 1, replica_assignment=[[3]])])
    three.kill("storage-3")
    eventually(lambda: admin.client.list_topics(TOPIC, timeout=WAIT_S).topics[TOPIC].partitions[0].leader < 0, WAIT_S)
    assert "EligibleLeadersNotAvailableException" in elect(three)
    admin.close()
