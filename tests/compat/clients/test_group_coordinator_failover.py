"""Groups whose coordinators and gateways come and go: members see a pause, and what they committed stays."""

import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.compat.clients.admin import Admin
from tests.compat.clients.kafka_python import KafkaConsumer
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually, rounds

WAIT_S = 60.0
PARTITIONS = 4
EACH = 400
SESSION_MS = 10_000


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    """Two group coordinators and two gateways."""
    with LocalCluster(storage=3, gateways=2, coordinators=2) as running:
        yield running


@pytest.fixture
def admin(pair: LocalCluster) -> Iterator[Admin]:
    opened = Admin(pair.bootstrap)
    yield opened
    opened.close()


class Group:
    """One member that reads, and commits what it has read, beside a producer; what it was told in between is kept."""

    def __init__(self, bootstrap: str, topic: str, protocol: str = "classic") -> None:
        self.topic = topic
        self.read: list[int] = []
        self.assignments = 0
        self.lost = 0
        self.sent = 0
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"group of {topic}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
            | ({"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500} if protocol == "classic" else {})
        )
        self.consumer.subscribe([topic], on_assign=self._assigned, on_lost=self._lost)

    def go_on(self, what: str, count: int) -> None:
        """Returns when it has read and committed so many more."""
        goal = len(self.read) + count
        for _ in rounds(what, within_s=WAIT_S):
            if self.sent < goal:
                for _ in range(20):
                    self._producer.produce(self.topic, b"%d" % self.sent, partition=self.sent % PARTITIONS)
                    self.sent += 1
            self._producer.poll(0)
            if messages := self.consumer.consume(num_messages=100, timeout=0.05):
                self._take(messages)
            if len(self.read) >= goal:
                return

    def committed(self) -> dict[int, int]:
        asked = [TopicPartition(self.topic, partition) for partition in range(PARTITIONS)]
        return {found.partition: found.offset for found in self.consumer.committed(asked, timeout=WAIT_S)}

    def close(self) -> None:
        self.consumer.close()
        assert self._producer.flush(WAIT_S) == 0

    def _take(self, messages: list[Message]) -> None:
        for message in messages:
            assert message.error() is None, message.error()
            self.read.append(int(message.value() or b""))
        assert eventually(self._commit, WAIT_S)

    def _commit(self) -> object:
        """False: its coordinator is being looked for, which librdkafka leaves to its caller."""
        try:
            return self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._WAIT_COORD:
                raise
            return False

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignments += 1

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.lost += 1


@pytest.fixture(params=["classic", "consumer"])
def group(request: pytest.FixtureRequest, pair: LocalCluster, admin: Admin, topic: str) -> Iterator[Group]:
    """A group of either protocol."""
    admin.create(topic, PARTITIONS)
    made = Group(pair.bootstrap, topic, request.param)
    yield made
    made.close()


@pytest.mark.parametrize("process", ["group_coordinator", "gateway", "storage"])
def test_a_member_that_commits_sees_a_pause_when_each_of_a_kind_is_killed(pair: LocalCluster, group: Group, process: str) -> None:
    names = [name for name in pair.names if name.startswith(process)]
    group.go_on("before", EACH)
    for name in names:
        pair.kill(name)
        group.go_on(f"without {name}", EACH)
        pair.start(name)
        pair.wait_ready([name])
        group.go_on(f"with {name} again", EACH)
    assert sorted(set(group.read)) == sorted(group.read), "each once"
    assert (group.assignments, group.lost) == (1, 0), "nobody was moved"
    assert sum(group.committed().values()) == len(group.read)


def test_coordinators_and_gateways_may_be_restarted_in_turn(pair: LocalCluster, group: Group) -> None:
    group.go_on("before", EACH)
    for name in ("group_coordinator-1", "gateway-1", "group_coordinator-2", "gateway-2"):
        pair.restart(name)
        group.go_on(f"after {name}", EACH)
    assert (group.assignments, group.lost) == (1, 0)


def test_a_coordinator_that_is_silent_is_missed_and_may_come_back(pair: LocalCluster, group: Group) -> None:
    group.go_on("before", EACH)
    for name in ("group_coordinator-1", "group_coordinator-2"):
        pair.kill(name, signal.SIGSTOP)
        group.go_on(f"while {name} says nothing", EACH)
        pair.kill(name, signal.SIGCONT)
        pair.wait_ready([name])
        group.go_on(f"with {name} again", EACH)
    assert (group.assignments, group.lost) == (1, 0)


def test_without_etcd_groups_go_on_as_before(pair: LocalCluster, group: Group) -> None:
    group.go_on("before", EACH)
    pair.kill("etcd")
    group.go_on("without etcd", 5 * EACH)
    pair.start("etcd")
    pair.wait_ready()
    group.go_on("with etcd again", EACH)
    assert (group.assignments, group.lost) == (1, 0)


def test_a_member_of_another_client_goes_on_where_the_first_one_stopped(pair: LocalCluster, admin: Admin, topic: str) -> None:
    admin.create(topic, PARTITIONS)
    first = Group(pair.bootstrap, topic)
    first.go_on("first", EACH)
    committed = first.committed()
    first.close()
    pair.restart("group_coordinator-1")
    pair.restart("group_coordinator-2")
    second = KafkaConsumer(
        topic,
        bootstrap_servers=pair.bootstrap.split(","),
        group_id=f"group of {topic}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    positions: dict[int, int] = {}
    for _ in rounds("the rest", within_s=WAIT_S):
        for records in second.poll(timeout_ms=200).values():
            for record in records:
                positions.setdefault(record.partition, record.offset)
        left = first.sent - sum(committed.values())
        if len(positions) == PARTITIONS or not left:
            break
    second.commit()
    second.close()
    assert positions == {partition: committed[partition] for partition in positions}


def test_groups_are_listed_described_and_deleted_wherever_they_are(pair: LocalCluster, admin: Admin, topic: str) -> None:
    admin.create(topic, PARTITIONS)
    names = [f"{topic} {number}" for number in range(12)]
    for name in names:
        consumer = Consumer({"bootstrap.servers": pair.bootstrap, "group.id": name, "log_level": 0})
        consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
        consumer.close()

    def ours() -> list[str]:
        return sorted(found.group_id for found in admin.client.list_consumer_groups().result().valid if found.group_id in names)

    assert eventually(ours) == sorted(names), "each once"
    described = admin.client.describe_consumer_groups(names)
    assert {name: future.result().group_id for name, future in described.items()} == {name: name for name in names}
    for future in admin.client.delete_consumer_groups(names).values():
        assert future.result() is None
    assert ours() == []
    for future in admin.client.delete_consumer_groups(names[:2]).values():
        with pytest.raises(KafkaException) as raised:
            future.result()
        assert raised.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
