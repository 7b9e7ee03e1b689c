"""Three replicas: whoever dies, an idempotent producer with acks=all notices a pause and loses nothing. Real processes.

How short the pause is, `python -m tests.bench.failover` says; here it need only be shorter than any lease.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_END, Consumer, KafkaError, TopicPartition

from tests.bench.acknowledged import SteadyProducer
from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.system.chaos.acknowledgement_gaps import longest_gap_ms
from tests.system.chaos.process_faults import elected

REPLICAS = 3
WITHIN_S = 120.0
LEASE_S = 9
PAUSE_MS_MAX = 8_000.0
PER_SECOND, RECORDS = 100, 100
"""The pace of the benchmark, 500, takes all CPU of the machine, for pauses of seconds that 100 records show as well."""
ETCD_OUTAGE_S = float(os.environ.get("PENSTOCK_TEST_ETCD_OUTAGE_S", "12"))
"""Longer than every lease."""
LINES_MAX = ETCD_OUTAGE_S + 10
"""That one service logs about a metadata store that is away: some when it goes, and one a second from then on."""


@pytest.fixture(scope="module")
def trio() -> Iterator[LocalCluster]:
    leases = {"PENSTOCK_ELECTION_TTL_S": str(LEASE_S), "PENSTOCK_MEMBER_TTL_S": str(LEASE_S)}
    with LocalCluster(storage=3, gateways=2, controllers=3, environment=leases) as running:
        yield running


@pytest.fixture
def producer(trio: LocalCluster, request: pytest.FixtureRequest) -> Iterator[SteadyProducer]:
    """A producer on a topic with three replicas. At the end none of its sends may have failed, and all is healed."""
    topic = request.node.name.replace("[", "-").replace("]", "")[:200]
    trio.up()
    admin = Admin(trio.bootstrap)
    admin.create(topic, 1, {}, REPLICAS)
    admin.close()
    with SteadyProducer(trio.bootstrap, topic, replicas=REPLICAS, per_second=PER_SECOND) as steady:
        eventually(steady.is_whole, WITHIN_S)
        steady.advance(RECORDS, WITHIN_S)
        yield steady
        trio.up()
        steady.advance(RECORDS, WITHIN_S)
        eventually(steady.is_whole, WITHIN_S)
        assert steady.failures == []


def pause_ms(producer: SteadyProducer, since_ns: int) -> float:
    producer.advance(RECORDS, WITHIN_S)
    return longest_gap_ms(producer.times, since_ns, time.monotonic_ns())


@pytest.mark.parametrize("victims", ["leader", "controller", "both"])
def test_a_death_costs_a_pause_that_is_shorter_than_any_lease(trio: LocalCluster, producer: SteadyProducer, victims: str) -> None:
    names = {"leader": [f"storage-{producer.leader()}"], "controller": [elected(trio)]}
    names["both"] = names["controller"] + names["leader"]
    begun = time.monotonic_ns()
    for name in names[victims]:
        trio.kill(name)
    assert pause_ms(producer, begun) < PAUSE_MS_MAX


def test_a_silent_leader_is_replaced_and_comes_back(trio: LocalCluster, producer: SteadyProducer) -> None:
    begun, leader = time.monotonic_ns(), producer.leader()
    pid = trio.pid(f"storage-{leader}")
    os.kill(pid, signal.SIGSTOP)
    try:
        assert pause_ms(producer, begun) < 2_000 + PAUSE_MS_MAX
        assert producer.leader() != leader
    finally:
        os.kill(pid, signal.SIGCONT)


def test_every_process_is_restarted_one_after_the_other(trio: LocalCluster, producer: SteadyProducer) -> None:
    begun = time.monotonic_ns()
    for name in trio.names:
        if name != "etcd":
            trio.restart(name)
            eventually(producer.is_whole, WITHIN_S)
    assert pause_ms(producer, begun) < PAUSE_MS_MAX


class SteadyReader:
    """Reads along from the end on, in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.times: list[int] = []
        """Of the records that came, in nanoseconds."""
        self.errors: list[KafkaError] = []
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 2}
        )
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="reads steadily")

    def __enter__(self) -> "SteadyReader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def advance(self, records: int) -> None:
        wanted = len(self.times) + records
        eventually(lambda: len(self.times) >= wanted, WITHIN_S)

    def _work(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(1000, timeout=0.05):
                if (error := message.error()) is None:
                    self.times.append(time.monotonic_ns())
                else:
                    self.errors.append(error)


def test_an_etcd_outage_longer_than_every_lease_is_noticed_by_nobody(trio: LocalCluster, producer: SteadyProducer) -> None:
    services = [name for name in trio.names if name != "etcd"]
    with SteadyReader(trio.bootstrap, producer.topic) as reader:
        reader.advance(RECORDS)
        leader, begun = producer.leader(), time.monotonic_ns()
        lines = {name: len(trio.log(name).splitlines()) for name in services}
        trio.kill("etcd")
        go_on(producer, reader, ETCD_OUTAGE_S)
        said = {name: trio.log(name).splitlines()[lines[name] :] for name in services}
        trio.start("etcd")
        trio.wait_ready()
        go_on(producer, reader, ETCD_OUTAGE_S)
        assert pause_ms(producer, begun) < PAUSE_MS_MAX
        reader.advance(RECORDS)
        assert longest_gap_ms(reader.times, begun, time.monotonic_ns()) < PAUSE_MS_MAX
        assert not reader.errors, reader.errors[:3]
    assert producer.leader() == leader, "nobody was taken for dead"
    loudest = max(said.values(), key=len)
    assert len(loudest) < LINES_MAX, "\n".join(loudest)
    admin = Admin(trio.bootstrap)
    admin.create(f"{producer.topic}-2", 1, {}, REPLICAS)
    admin.close()


def go_on(producer: SteadyProducer, reader: SteadyReader, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        producer.advance(RECORDS, WITHIN_S)
        reader.advance(RECORDS)
