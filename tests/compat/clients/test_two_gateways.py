"""Two gateways: any one of them is enough to begin with, clients are spread over both, and the death of one is survived."""

from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.compat.clients.admin import Admin
from tests.compat.clients.five_clients import CLIENTS, Record, consume
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually, rounds

WAIT_S = 60.0
STORAGE = 4


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    with LocalCluster(storage=STORAGE, gateways=2) as running:
        yield running


def ports(admin: Admin) -> dict[int, int]:
    """The port of each broker, as clients see it."""
    return {broker.id: broker.port for broker in admin.client.list_topics(timeout=WAIT_S).brokers.values()}


def port_base(cluster: LocalCluster, gateway: int) -> int:
    return int(cluster.bootstrap.split(",")[gateway - 1].rsplit(":", 1)[1])


@pytest.mark.parametrize("gateway", [1, 2])
def test_one_gateway_is_enough_to_reach_every_partition(pair: LocalCluster, topic: str, gateway: int) -> None:
    bootstrap = f"127.0.0.1:{port_base(pair, gateway)}"
    admin = Admin(bootstrap)
    admin.create(topic, partitions=8)
    records = [Record(b"%d" % number, b"value") for number in range(100)]
    for name in ("confluent-kafka", "kafka-python", "aiokafka", "kcat"):
        for partition in range(0, 8, 2):
            CLIENTS[name].write(bootstrap, topic, records, partition=partition)
    for partition in range(0, 8, 2):
        assert CLIENTS["aiokafka"].read(bootstrap, topic, 400, partition=partition) == records * 4
    admin.close()


def test_brokers_are_spread_over_the_gateways_and_both_tell_the_same(pair: LocalCluster) -> None:
    advertised = []
    for gateway in (1, 2):
        admin = Admin(f"127.0.0.1:{port_base(pair, gateway)}")
        advertised.append(ports(admin))
        admin.close()
    assert advertised[0] == advertised[1]
    first, second = (port_base(pair, gateway) for gateway in (1, 2))
    for node, port in advertised[0].items():
        assert port in (first + node, second + node)
    assert len({port - node for node, port in advertised[0].items()}) == 2


def test_a_producer_and_a_consumer_go_on_when_a_gateway_dies_and_comes_back(pair: LocalCluster, topic: str) -> None:
    first = f"127.0.0.1:{port_base(pair, 1)}"
    admin = Admin(first)
    admin.create(topic, partitions=STORAGE, replicas=3)
    consumer = Consumer({"bootstrap.servers": pair.bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(STORAGE)])
    read: list[int] = []
    producer = Producer({"bootstrap.servers": pair.bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
    delivered: list[Message] = []
    failed: list[KafkaError] = []

    def report(error: KafkaError | None, message: Message) -> None:
        if error is None:
            delivered.append(message)
        else:
            failed.append(error)

    sent = 0

    def produce_more(what: str, count: int) -> None:
        nonlocal sent
        goal = len(delivered) + count
        for _ in rounds(what, within_s=WAIT_S):
            for _ in range(20):
                producer.produce(topic, b"%d" % sent, partition=sent % STORAGE, on_delivery=report)
                sent += 1
            producer.poll(0.01)
            for message in consumer.consume(num_messages=1_000, timeout=0.002):
                assert message.error() is None, message.error()
                read.append(int(message.value()))
            if min(len(delivered), len(read)) >= goal:
                return

    produce_more("before", 1_000)
    pair.kill("gateway-2")
    eventually(lambda: set(ports(admin).values()) == {port_base(pair, 1) + node for node in range(1, STORAGE + 1)})
    produce_more("without it", 5_000)
    pair.start("gateway-2")
    pair.wait_ready(["gateway-2"])
    produce_more("with it again", 1_000)
    assert producer.flush(WAIT_S) == 0
    assert not failed
    for _ in rounds("the rest", within_s=WAIT_S):
        read += [int(message.value()) for message in consumer.consume(num_messages=1_000, timeout=0.1)]
        if len(read) >= sent:
            break
    consumer.close()
    assert sorted(read) == list(range(sent)), "each once"
    found = []
    for partition in range(STORAGE):
        count = sum(1 for number in range(sent) if number % STORAGE == partition)
        values = [int(message.value()) for message in consume(first, topic, count, partition=partition)]
        assert values == list(range(partition, sent, STORAGE)), "in order, and each once"
        found += values
    assert len(found) == sent
    admin.close()
