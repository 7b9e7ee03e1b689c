"""Many clients of one entity, on three gateways."""

import random
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.compat.clients.admin import Admin
from tests.compat.clients.quotas.limits import limit, stored
from tests.compat.clients.quotas.rates import TOLERATED, moved_within
from tests.compat.differential.scenarios.client_quotas import PRODUCER
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

GATEWAYS = 3
CROWD = 100
RATE = 2_000_000
RECORD = 4_000
UNCOUNTED_S = 0.5 + GATEWAYS * 0.2
"""A burst, and the slice and the credit of each gateway, in seconds of the rate."""
MOVES_EVERY_S = 1.0
MEASURED_S = 6.0


@pytest.fixture(scope="module")
def trio() -> Iterator[LocalCluster]:
    with LocalCluster(storage=GATEWAYS, gateways=GATEWAYS) as running:
        yield running


@pytest.fixture(scope="module")
def admin(trio: LocalCluster) -> Iterator[Admin]:
    opened = Admin(trio.bootstrap)
    yield opened
    opened.close()


def throttled(cluster: LocalCluster, number: int) -> float:
    lines = cluster.admin(f"gateway-{number}", "/metrics").splitlines()
    name = 'penstock_gateway_throttled_requests_total{quota="produce"}'
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


class Crowd:
    """Producers of one client id. Each has a record in flight, to a partition that it changes now and then: most choose the same.
    Until the context ends; then all records are acknowledged."""

    def __init__(self, bootstrap: str, name: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "client.id": name, "linger.ms": 0, "max.in.flight": 1, "log_level": 0}
        self._name = name
        self._producers = [Producer(settings | {"queue.buffering.max.messages": 1}) for _ in range(CROWD)]
        self._failures: list[object] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0

    def _run(self) -> None:
        choice, moves_at, places = random.Random(1), 0.0, [0] * CROWD
        while not self._ends.wait(0.005):
            if time.monotonic() >= moves_at:
                moves_at = time.monotonic() + MOVES_EVERY_S
                crowded, chosen = choice.random(), choice.randrange(GATEWAYS)
                places = [chosen if choice.random() < crowded else choice.randrange(GATEWAYS) for _ in places]
            for producer, place in zip(self._producers, places, strict=True):
                producer.poll(0)
                if not len(producer):
                    producer.produce(self._name, bytes(RECORD), partition=place, on_delivery=self._delivered)
                    self.sent += 1

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failures.append(error)

    def __enter__(self) -> "Crowd":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        assert not sum(producer.flush(60) for producer in self._producers)
        assert not self._failures, self._failures[0]


def test_a_hundred_clients_on_three_gateways_share_one_limit(trio: LocalCluster, admin: Admin, topic: str) -> None:
    limit(trio, topic, PRODUCER, RATE)
    admin.create(topic, GATEWAYS)

    def bytes_stored() -> int:
        return stored(admin, topic, partitions=GATEWAYS)[topic] * RECORD

    def most_is_used() -> bool:
        """In one of the windows: a busy machine may give the crowd too little time to send as much. No window has too much."""
        seconds, moved = moved_within(MEASURED_S, bytes_stored)
        assert moved <= RATE * (TOLERATED * seconds + UNCOUNTED_S) + CROWD * RECORD
        return moved >= 0.7 * RATE * seconds

    with Crowd(trio.bootstrap, topic) as crowd:
        eventually(lambda: all(throttled(trio, number + 1) for number in range(GATEWAYS)))
        eventually(most_is_used, 60)
    assert bytes_stored() == crowd.sent * RECORD, "each record once"


def test_a_client_that_is_made_anew_for_each_record_owes_its_debt(trio: LocalCluster, admin: Admin, topic: str) -> None:
    """It has a new connection to another gateway each time, and ignores what it was told, as librdkafka does."""
    rate, size, records = 200_000, 50_000, 16
    limit(trio, topic, PRODUCER, rate)
    admin.create(topic, GATEWAYS)
    since = time.monotonic()
    for number in range(records):
        producer = Producer({"bootstrap.servers": trio.bootstrap, "client.id": topic, "linger.ms": 0, "log_level": 0})
        producer.produce(topic, bytes(size), partition=number % GATEWAYS)
        assert producer.flush(60) == 0
    seconds = time.monotonic() - since
    assert records * size <= rate * (TOLERATED * seconds + UNCOUNTED_S) + size
    assert stored(admin, topic, partitions=GATEWAYS)[topic] == records
