"""Three replicas: whoever dies, an idempotent producer with acks=all notices a pause and loses nothing. Real processes.

How short the pause is, `python -m tests.bench.failover` says; here it need only be shorter than any lease.
"""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.bench.acknowledged import SteadyProducer
from tests.chaos.faults import elected
from tests.chaos.gaps import longest_gap_ms
from tests.clients.admin import Admin
from tests.clients.waiting import eventually
from tests.cluster_harness import LocalCluster

REPLICAS = 3
WITHIN_S = 60.0
PAUSE_MS_MAX = 3_000.0
RECORDS = 300
ETCD_OUTAGE_S = float(os.environ.get("PENSTOCK_TEST_ETCD_OUTAGE_S", "12"))
"""Longer than every lease."""


@pytest.fixture(scope="module")
def trio() -> Iterator[LocalCluster]:
    with LocalCluster(storage=3, gateways=2, controllers=3) as running:
        yield running


@pytest.fixture
def producer(trio: LocalCluster, request: pytest.FixtureRequest) -> Iterator[SteadyProducer]:
    """At work on a topic with three replicas. At the end nothing it sent may have failed, and everything is healed."""
    topic = request.node.name.replace("[", "-").replace("]", "")[:200]
    trio.up()
    admin = Admin(trio.bootstrap)
    admin.create(topic, 1, {}, REPLICAS)
    admin.close()
    with SteadyProducer(trio.bootstrap, topic, replicas=REPLICAS) as steady:
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


def test_an_etcd_outage_longer_than_every_lease_is_noticed_by_nobody(trio: LocalCluster, producer: SteadyProducer) -> None:
    leader, begun = producer.leader(), time.monotonic_ns()
    trio.kill("etcd")
    until = time.monotonic() + ETCD_OUTAGE_S
    while time.monotonic() < until:
        producer.advance(RECORDS, WITHIN_S)
    trio.start("etcd")
    trio.wait_ready()
    until = time.monotonic() + ETCD_OUTAGE_S
    while time.monotonic() < until:
        producer.advance(RECORDS, WITHIN_S)
    assert pause_ms(producer, begun) < PAUSE_MS_MAX
    assert producer.leader() == leader, "nobody was taken for dead"
