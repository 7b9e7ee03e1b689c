"""Consumers that name their rack read from the replica there, by Kafka's own protocol for it (KIP-392)."""

import re
from collections.abc import Iterator

import pytest

from libs.cluster.configs.broker_table import RACK_AWARE
from tests.compat.clients.admin import Admin
from tests.compat.clients.five_clients import CLIENTS, Record, consume
from tests.compat.kafka.tools import run_tool
from tests.support.cluster_harness import LocalCluster

RACKS = {1: "a", 2: "b", 3: "c"}
RECORDS = [Record(b"%d" % number, b"value") for number in range(50)]


@pytest.fixture(scope="module")
def racks() -> Iterator[LocalCluster]:
    selector = {"PENSTOCK_BROKER_CONFIGS": f"replica.selector.class={RACK_AWARE}"}
    where = {f"storage-{node}": {"PENSTOCK_RACK": rack, **selector} for node, rack in RACKS.items()}
    with LocalCluster(storage=3, environment_of=where) as running:
        yield running


@pytest.fixture
def led(racks: LocalCluster, topic: str) -> int:
    """A topic with records; its leader."""
    admin = Admin(racks.bootstrap)
    admin.create(topic, replicas=3)
    CLIENTS["confluent-kafka"].write(racks.bootstrap, topic, RECORDS)
    leader = admin.client.list_topics(topic, timeout=60).topics[topic].partitions[0].leader
    admin.close()
    return int(leader)


def bytes_read(cluster: LocalCluster) -> dict[int, float]:
    """From each storage node, by consumers."""
    found = {}
    for node in RACKS:
        by_topic = re.findall(
            r"^kafka_server_brokertopicmetrics_bytesout_total\{.*\} (\S+)", cluster.admin(f"storage-{node}", "/metrics"), re.M
        )
        found[node] = sum(map(float, by_topic))
    return found


def readers_of(cluster: LocalCluster, before: dict[int, float]) -> set[int]:
    return {node for node, read in bytes_read(cluster).items() if read > before[node]}


@pytest.mark.parametrize("ahead", [1, 2])
def test_librdkafka_reads_from_the_follower_in_its_rack(racks: LocalCluster, topic: str, led: int, ahead: int) -> None:
    near = (led - 1 + ahead) % 3 + 1
    before = bytes_read(racks)
    read = consume(racks.bootstrap, topic, len(RECORDS), client_rack=RACKS[near])
    assert [message.key() for message in read] == [record.key for record in RECORDS]
    assert readers_of(racks, before) == {near}


def test_a_consumer_in_the_leaders_rack_or_in_none_reads_from_the_leader(racks: LocalCluster, topic: str, led: int) -> None:
    for rack in (RACKS[led], "elsewhere", ""):
        before = bytes_read(racks)
        assert len(consume(racks.bootstrap, topic, len(RECORDS), client_rack=rack)) == len(RECORDS)
        assert readers_of(racks, before) == {led}


def test_the_java_consumer_reads_from_the_follower_in_its_rack(racks: LocalCluster, topic: str, led: int) -> None:
    near = led % 3 + 1
    before = bytes_read(racks)
    reading = ("--partition", "0", "--offset", "earliest", "--max-messages", str(len(RECORDS)))
    where = ("--bootstrap-server", racks.bootstrap, "--topic", topic, "--command-property", f"client.rack={RACKS[near]}")
    read = run_tool("kafka-console-consumer", *where, *reading)
    assert read.text.split() == ["value"] * len(RECORDS)
    assert readers_of(racks, before) == {near}
