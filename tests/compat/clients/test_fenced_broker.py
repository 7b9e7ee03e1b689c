"""A dead node is still a broker of Metadata: clients and tools go on with it, and those that ask who is alive hear it."""

from confluent_kafka import Consumer, Producer

from tests.compat.clients.admin import Admin
from tests.compat.kafka.tools import run_tools
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

WAIT_S = 60.0
RECORDS = 100


def test_tools_and_clients_go_on_while_metadata_names_a_dead_node(three: LocalCluster) -> None:
    bootstrap, admin = three.bootstrap, Admin(three.bootstrap)
    admin.create("three", partitions=3, replicas=3)
    three.kill("storage-3")
    eventually(lambda: led_by(admin, "three") == {1, 2}, WAIT_S)
    assert set(admin.client.list_topics(timeout=WAIT_S).brokers) == {1, 2, 3}

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("three", b"%d" % number, partition=number % 3)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["three"])
    values: set[bytes] = set()
    eventually(lambda: values.update(m.value() or b"" for m in consumer.consume(RECORDS, 1.0)) or len(values) == RECORDS, WAIT_S)
    groups = admin.client.list_consumer_groups(request_timeout=WAIT_S).result()
    assert ([group.group_id for group in groups.valid], groups.errors) == (["readers"], [])

    of = ("--bootstrap-server", bootstrap)
    versions, endpoints, topics, listed = run_tools(
        ("kafka-broker-api-versions", *of),
        ("kafka-cluster", "list-endpoints", *of),
        ("kafka-topics", *of, "--describe", "--topic", "three", "--under-replicated-partitions"),
        ("kafka-consumer-groups", *of, "--list"),
    )
    assert {f"(id: {node_id} rack: " in versions.text for node_id in (1, 2, 3)} == {True}
    assert [line.split()[0] for line in endpoints.text.splitlines()[1:]] == ["1", "2"]
    assert topics.text.count("Partition: ") == 3
    assert listed.text.split() == ["readers"]
    consumer.close()
    producer.close()
    three.start("storage-3")
    three.wait_ready(["storage-3"])
    admin.delete("three")
    admin.close()


def led_by(admin: Admin, topic: str) -> set[int]:
    """The leaders of its partitions."""
    return {p.leader for p in admin.client.list_topics(topic, timeout=WAIT_S).topics[topic].partitions.values()}
