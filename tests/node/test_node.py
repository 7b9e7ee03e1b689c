"""Nodes of real processes: a storage node and a gateway in each, under unmodified clients. What some of them do is that which
tests of separate services have them do (`tests/compat/clients/any_roles.py`)."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer

from services.local.cluster_shape import HOST, NODE_ROLES
from tests.compat.clients.admin import Admin
from tests.compat.clients.any_roles import (
    PARTITIONS,
    commit_and_abort_by_kafka_python,
    commit_and_abort_by_librdkafka,
    commit_positions_by_kafka_python,
    read_fifty_partitions_by_librdkafka,
    store_a_record_by_kafka_python,
)
from tests.compat.clients.kafka_python import KafkaConsumer, KafkaProducer
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

RECORDS = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(storage=2, roles=NODE_ROLES) as nodes:
        nodes.up()
        yield nodes


@pytest.fixture(scope="module")
def bootstrap(cluster: LocalCluster) -> str:
    return cluster.bootstrap


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    opened = Admin(bootstrap)
    yield opened
    opened.close()


def make_topic(admin: Admin, name: str) -> None:
    admin.create(name, partitions=4, replicas=2)


def write(bootstrap: str, topic: str, values: range) -> None:
    failed = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    for value in values:
        producer.produce(
            topic, str(value), partition=value % 4, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert producer.flush(60) == 0
    assert failed == []


def read(bootstrap: str, topic: str, count: int) -> list[int]:
    settings = {"bootstrap.servers": bootstrap, "group.id": f"reads-{topic}", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        found: list[int] = []

        def has_all() -> bool:
            found.extend(int(message.value()) for message in consumer.consume(count, 0.2) if message.error() is None)
            return len(found) >= count

        eventually(has_all, within_s=60)
        return sorted(found)
    finally:
        consumer.close()


def test_metadata_names_each_broker_at_the_port_of_its_own_process(cluster: LocalCluster, admin: Admin) -> None:
    brokers = admin.client.list_topics(timeout=30).brokers
    assert {(each.id, each.host, each.port) for each in brokers.values()} == {
        (number, HOST, cluster.shape.port + number) for number in (1, 2)
    }


def test_each_node_has_the_port_of_its_broker_and_serves_all_partitions(cluster: LocalCluster, admin: Admin) -> None:
    make_topic(admin, "linked")
    write(cluster.bootstrap, "linked", range(RECORDS))
    assert read(cluster.bootstrap, "linked", RECORDS) == list(range(RECORDS))
    metrics = cluster.admin("node-1", "/metrics")
    assert 'penstock_build_info{service="node"' in metrics
    asked = json.loads(cluster.admin("node-1", "/debug/gateway"))
    assert asked["broker_ids"] == [1]
    assert asked["siblings"] == {"taken": [], "keeps": [2], "hung": []}


def test_a_node_that_is_restarted_serves_its_clients_again(cluster: LocalCluster, admin: Admin) -> None:
    make_topic(admin, "restarted")
    write(cluster.bootstrap, "restarted", range(RECORDS))
    cluster.restart("node-1")
    write(cluster.bootstrap, "restarted", range(RECORDS, 2 * RECORDS))
    assert read(cluster.bootstrap, "restarted", 2 * RECORDS) == list(range(2 * RECORDS))
    eventually(cluster.is_healthy, within_s=60)


def test_a_sibling_serves_the_port_of_a_node_that_was_killed_until_it_is_back(cluster: LocalCluster, admin: Admin) -> None:
    make_topic(admin, "killed")
    write(cluster.bootstrap, "killed", range(RECORDS))
    of_one = f"{HOST}:{cluster.shape.port + 1}"
    cluster.kill("node-1")
    # Nothing but the dead node's port is known to this client.
    write(of_one, "killed", range(RECORDS, 2 * RECORDS))
    assert json.loads(cluster.admin("node-2", "/debug/gateway"))["broker_ids"] == [1, 2]
    cluster.start("node-1")
    cluster.wait_ready(["node-1"])
    broker_ids = [json.loads(cluster.admin(name, "/debug/gateway"))["broker_ids"] for name in ("node-1", "node-2")]
    assert broker_ids == [[1], [2]]
    write(of_one, "killed", range(2 * RECORDS, 3 * RECORDS))
    assert read(of_one, "killed", 3 * RECORDS) == list(range(3 * RECORDS))
    eventually(cluster.is_healthy, within_s=60)


def test_a_sibling_serves_the_port_of_a_node_that_hangs_until_it_goes_on(cluster: LocalCluster) -> None:
    def ports_of(name: str) -> list[int]:
        found: list[int] = json.loads(cluster.admin(name, "/debug/gateway"))["broker_ids"]
        return found

    cluster.kill("node-1", signal.SIGSTOP)
    try:
        with closing(Admin(f"{HOST}:{cluster.shape.port + 1}")) as known_alone:
            assert set(known_alone.client.list_topics(timeout=60).brokers) == {1, 2}
        assert ports_of("node-2") == [1, 2]
    finally:
        cluster.kill("node-1", signal.SIGCONT)
    eventually(lambda: ports_of("node-2") == [2], within_s=60)
    assert ports_of("node-1") == [1]
    eventually(cluster.is_healthy, within_s=60)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_kafka_python_stores_records_by_every_acks_setting(bootstrap: str, admin: Admin, topic: str, acks: int | str) -> None:
    admin.create(topic)
    store_a_record_by_kafka_python(bootstrap, topic, acks)


def test_librdkafka_reads_fifty_partitions_of_all_nodes(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic, partitions=PARTITIONS)
    read_fifty_partitions_by_librdkafka(bootstrap, topic)


@pytest.mark.parametrize(
    "scenario",
    [commit_and_abort_by_librdkafka, commit_and_abort_by_kafka_python, commit_positions_by_kafka_python],
    ids=lambda scenario: scenario.__name__,
)
def test_transactions_of_real_clients(bootstrap: str, admin: Admin, topic: str, scenario: Callable[[str, str], None]) -> None:
    admin.create(topic, partitions=2)
    scenario(bootstrap, topic)


def test_a_producer_and_a_group_of_kafka_python_go_on_when_a_node_is_killed(
    cluster: LocalCluster, bootstrap: str, admin: Admin, topic: str
) -> None:
    make_topic(admin, topic)
    settings = {"bootstrap_servers": bootstrap.split(",")}
    found: set[int] = set()

    def has_read(count: int) -> bool:
        for messages in consumer.poll(timeout_ms=200).values():
            found.update(int(message.value) for message in messages)
        return len(found) == count

    with (
        closing(KafkaProducer(acks="all", **settings)) as producer,
        closing(KafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings)) as consumer,
    ):
        for killed, values in ((None, range(RECORDS)), ("node-2", range(RECORDS, 2 * RECORDS))):
            if killed is not None:
                cluster.kill(killed)
            for future in [producer.send(topic, b"%d" % value, partition=value % 4) for value in values]:
                future.get(timeout=60)
            eventually(lambda count=values.stop: has_read(count), within_s=60)
    assert found == set(range(2 * RECORDS))
    cluster.start("node-2")
    cluster.wait_ready(["node-2"])
    eventually(cluster.is_healthy, within_s=60)
