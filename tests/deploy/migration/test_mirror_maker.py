"""MirrorMaker 2 carries topics, configs and committed offsets from Kafka to Penstock, and back, while producers go on."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka.admin import ResourceType

from tests.compat.clients.admin import Admin
from tests.compat.clients.groups.offsets import GroupAdmin
from tests.compat.clients.transactions.topic_reader import TopicReader
from tests.compat.kafka.broker import QUICK, KafkaBroker
from tests.deploy.migration.mirror_maker import MirrorMaker, documented_properties
from tests.deploy.migration.served_content import QUIET, produce
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually, rounds
from tests.support.requirements import require

pytestmark = pytest.mark.timeout(900)
FEW = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
ARRIVES_WITHIN_S = 240.0
"""MirrorMaker starts several workers of Connect one after another."""
PARTITIONS, BEFORE, AFTER = 3, 900, 60


class Flow:
    """A topic that goes from one cluster to the other, and the group that reads it."""

    def __init__(self, names: tuple[str, str], source: str, target: str, topic: str) -> None:
        self.source, self.target, self.topic, self.group = source, target, topic, f"readers-of-{topic}"
        self._names = names
        Admin(source).create(topic, PARTITIONS, {"retention.ms": "777000"})
        produce(source, topic, range(BEFORE), PARTITIONS)

    def properties(self) -> dict[str, str]:
        """Those that the page has of a flow, with these names."""
        documented = documented_properties("With MirrorMaker 2")
        own = {name: value for name, value in documented.items() if name.startswith("kafka->penstock")}
        arrow = "->".join(self._names)
        return {**{name.replace("kafka->penstock", arrow): value for name, value in own.items()}, f"{arrow}.topics": self.topic}

    def wait_until_copied(self, count: int) -> None:
        admin = Admin(self.target)
        eventually(lambda: self.topic in admin.names(), ARRIVES_WITHIN_S)
        with TopicReader(self.target, self.topic, PARTITIONS) as reader:
            for _ in rounds(f"{count} records of {self.topic}", ARRIVES_WITHIN_S):
                if reader.count >= count:
                    return
                reader.poll(0.2)

    def values_in_target(self) -> list[str]:
        with TopicReader(self.target, self.topic, PARTITIONS) as reader:
            return [value for partition in reader.read_to_end() for _, value in partition]

    def consume(self, bootstrap: str, count: int) -> list[str]:
        """What a member of the group reads until there are so many, which it commits when it leaves."""
        settings = {"group.id": self.group, "auto.offset.reset": "error", "enable.auto.commit": False}
        if bootstrap == self.source:
            settings["auto.offset.reset"] = "earliest"
        consumer = Consumer({"bootstrap.servers": bootstrap, **settings, **QUIET})
        consumer.subscribe([self.topic])
        read: list[str] = []
        try:
            for _ in rounds(f"{count} records for {self.group}", ARRIVES_WITHIN_S):
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    read.append((message.value() or b"").decode())
                elif message is not None:
                    error = message.error()
                    assert error is None or error.code() != KafkaError._AUTO_OFFSET_RESET, "the group has no offset here"
                if len(read) >= count:
                    consumer.commit(asynchronous=False)
                    return read
        finally:
            consumer.close()
        raise AssertionError("unreachable: rounds() ends by raising")

    def wait_until_offsets_follow(self, total: int) -> None:
        """Until the group's offsets in the target come to `total`."""
        with closing(GroupAdmin(self.target)) as groups:
            eventually(lambda: sum(groups.committed(self.group).values()) == total, ARRIVES_WITHIN_S)


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Flow]]:
    """One MirrorMaker carries a topic each way."""
    require("java", "kafka", "kafka-mirror", "etcd")
    root = tmp_path_factory.mktemp("mirror")
    with KafkaBroker(root / "kafka", properties=FEW, options=QUICK, heap="512m") as kafka, LocalCluster() as penstock:
        there = Flow(("kafka", "penstock"), kafka.bootstrap, penstock.bootstrap, "orders")
        back = Flow(("penstock", "kafka"), penstock.bootstrap, kafka.bootstrap, "bills")
        addresses = {"kafka.bootstrap.servers": kafka.bootstrap, "penstock.bootstrap.servers": penstock.bootstrap}
        shared = {name: value for name, value in documented_properties("With MirrorMaker 2").items() if "->" not in name}
        with MirrorMaker(root, {**shared, **addresses, **there.properties(), **back.properties()}) as mirror:
            yield {"to Penstock": there, "to Kafka": back}
            assert mirror.lives()


@pytest.mark.parametrize("way", ["to Penstock", "to Kafka"])
def test_a_group_moves_over_and_reads_on_where_it_was(flows: dict[str, Flow], way: str) -> None:
    flow = flows[way]
    flow.wait_until_copied(BEFORE)
    assert sorted(flow.consume(flow.source, BEFORE)) == sorted(f"value {number}" for number in range(BEFORE))
    flow.wait_until_offsets_follow(BEFORE)

    produce(flow.source, flow.topic, range(BEFORE, BEFORE + AFTER), PARTITIONS)
    moved = flow.consume(flow.target, AFTER)
    assert sorted(moved) == sorted(f"value {number}" for number in range(BEFORE, BEFORE + AFTER)), "nothing again, nothing lost"
    assert sorted(flow.values_in_target()) == sorted(f"value {number}" for number in range(BEFORE + AFTER))
    target = Admin(flow.target)
    assert target.config(ResourceType.TOPIC, flow.topic)["retention.ms"].value == "777000"
    Admin(flow.source).set_config(ResourceType.TOPIC, flow.topic, "retention.ms", "888000")
    eventually(lambda: target.config(ResourceType.TOPIC, flow.topic)["retention.ms"].value == "888000", ARRIVES_WITHIN_S)
