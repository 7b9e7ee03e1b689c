"""Client quotas as real clients meet them, on two gateways with uneven load: three in four records are of one gateway's node.

Both gateways and all clients of a test share one limit. Requests have some 16 KB.
"""

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from tests.compat.clients.admin import REQUEST_S, Admin
from tests.compat.clients.quotas.floods import CLIENTS, PARTITIONS, RECORD, REQUEST, Endless, Seen
from tests.compat.clients.quotas.limits import limit, stored
from tests.compat.clients.quotas.rates import TOLERATED, UNCOUNTED_S, Progress, moved_within
from tests.compat.differential.batches import batch
from tests.compat.differential.messages import decode_response, encode_request
from tests.compat.differential.scenarios.client_quotas import CONSUMER, PRODUCER
from tests.compat.differential.systems import read_frame
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.support.requirements import require

RATE = 1_000_000
RATE_OF_EACH = 250_000
"""Where all kinds of clients run at once: half of what kafka-python, the slowest, sent on two cores that others used as well."""
RECORDS = 600
IN_FLIGHT = 5
MANAGERS = ("quota_manager-1", "quota_manager-2")
CHANGED_WITHIN_S = 15.0
"""Many times what a change takes, and two measurements of half a second."""


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    with LocalCluster(storage=2, gateways=2, quota_managers=2) as running:
        yield running


@pytest.fixture(scope="module")
def admin(pair: LocalCluster) -> Iterator[Admin]:
    opened = Admin(pair.bootstrap)
    yield opened
    opened.close()


def test_each_kind_of_client_gets_its_quota_no_more_and_each_record_once(pair: LocalCluster, admin: Admin) -> None:
    require("java", "kafka", "go")
    names = {kind: f"limited-{kind}" for kind in CLIENTS}
    for name in names.values():
        limit(pair, name, PRODUCER, RATE_OF_EACH)
        limit(pair, name, CONSUMER, RATE_OF_EACH)
        admin.create(name, PARTITIONS)
    total = RECORDS * RECORD
    written, written_by = {kind: Progress() for kind in CLIENTS}, {kind: Seen() for kind in CLIENTS}
    read_by = {kind: Seen() for kind in CLIENTS}
    with ThreadPoolExecutor(len(CLIENTS)) as pool:
        running = [
            pool.submit(client.produce, pair.bootstrap, names[kind], RECORDS, written_by[kind])
            for kind, client in CLIENTS.items()
        ]
        while wait(running, timeout=0.1).not_done:
            counts = stored(admin, *names.values())
            for kind, name in names.items():
                written[kind].note(counts[name] * RECORD)
        for each in running:
            each.result()
        assert stored(admin, *names.values()) == dict.fromkeys(names.values(), RECORDS)
        running = [
            pool.submit(client.consume, pair.bootstrap, names[kind], RECORDS, read_by[kind]) for kind, client in CLIENTS.items()
        ]
        for each in running:
            each.result()
    received = PARTITIONS * IN_FLIGHT * REQUEST
    faults = {
        (verb, kind): fault
        for verb, progress in (("produce", written), ("fetch", {kind: seen.progress for kind, seen in read_by.items()}))
        for kind in CLIENTS
        if (fault := progress[kind].faults(RATE_OF_EACH, total, used_at_least=0.7, received=received))
    }
    assert not faults, faults
    for seen in (written_by, read_by):
        untold = [kind for kind, each in seen.items() if not each.throttle_ms]
        assert not untold, "no throttle time was seen by these"
    for kind, seen_by in read_by.items():
        assert kind == "java" or sorted(seen_by.numbers) == list(range(RECORDS)), f"{kind} reads each record once"


def test_a_quota_that_changes_or_goes_takes_effect_while_a_client_produces(pair: LocalCluster, admin: Admin, topic: str) -> None:
    limit(pair, topic, PRODUCER, RATE)
    admin.create(topic, PARTITIONS)

    def moves(least: float, most: float) -> bool:
        seconds, moved = moved_within(0.5, lambda: stored(admin, topic)[topic] * RECORD)
        return least <= moved / seconds <= most

    with Endless(pair.bootstrap, topic) as client:
        eventually(lambda: moves(0.7 * RATE, 1.3 * RATE))
        limit(pair, topic, PRODUCER, RATE / 4)
        eventually(lambda: moves(0.0, 0.4 * RATE), CHANGED_WITHIN_S)
        limit(pair, topic, PRODUCER, RATE)
        eventually(lambda: moves(0.7 * RATE, 1.3 * RATE), CHANGED_WITHIN_S)
        limit(pair, topic, PRODUCER, None)
        eventually(lambda: moves(1.5 * RATE, float("inf")), CHANGED_WITHIN_S)
    assert stored(admin, topic)[topic] == client.sent, "each once"


def test_a_manager_that_is_killed_or_hangs_lets_nobody_exceed_the_limit(pair: LocalCluster, admin: Admin, topic: str) -> None:
    """Without any each gateway has half of the limit. Three in four records pass one of them: two thirds of it are used."""
    limit(pair, topic, PRODUCER, RATE)
    admin.create(topic, PARTITIONS)
    outage_s = 2.5

    def active() -> str | None:
        names = [name for name in MANAGERS if pair.is_running(name)]
        return next((name for name in names if "penstock_quota_manager_elected 1.0" in pair.admin(name, "/metrics")), None)

    def bytes_stored() -> int:
        return stored(admin, topic)[topic] * RECORD

    def is_used() -> bool:
        seconds, moved = moved_within(0.5, bytes_stored)
        return moved >= 0.85 * RATE * seconds

    def check_outage(cause: Callable[[], object]) -> None:
        eventually(is_used)
        cause()
        seconds, moved = moved_within(outage_s, bytes_stored)
        most = RATE * (TOLERATED * seconds + UNCOUNTED_S) + PARTITIONS * IN_FLIGHT * REQUEST
        assert 0.3 * RATE * seconds <= moved <= most

    with Endless(pair.bootstrap, topic) as client:
        first = eventually(active)
        check_outage(lambda: pair.kill(first))
        second = eventually(active)
        check_outage(lambda: pair.kill(second, signal.SIGSTOP))
        pair.kill(second, signal.SIGCONT)
        assert eventually(active) == second
        check_outage(lambda: pair.kill(second))
        pair.up()
        eventually(is_used)
    assert stored(admin, topic)[topic] == client.sent, "each once"


def test_a_client_that_connects_anew_for_each_request_owes_its_debt(pair: LocalCluster, admin: Admin, topic: str) -> None:
    """It waits as long as it is told, as clients do, and goes to both gateways in turn."""
    rate, size, requests = 200_000, 50_000, 16
    limit(pair, topic, PRODUCER, rate)
    admin.create(topic, PARTITIONS)
    leaders = {number: each.leader for number, each in admin.client.list_topics(topic).topics[topic].partitions.items()}
    ports = {broker.id: broker.port for broker in admin.client.list_topics(timeout=REQUEST_S).brokers.values()}
    waits: list[float] = []
    pause = threading.Event()

    def sent(partition: int) -> float:
        data = [{"index": partition, "records": batch((bytes(size),))}]
        fields = {"acks": 1, "timeout": 5000, "topic_data": [{"name": topic, "partition_data": data}]}
        with socket.create_connection(("127.0.0.1", ports[leaders[partition]]), timeout=REQUEST_S) as connection:
            connection.sendall(encode_request("produce", 9, fields, correlation_id=1, client_id=topic))
            frame = read_frame(connection)
        assert frame is not None
        answer = decode_response("produce", 9, frame)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0
        return float(answer["throttle_time_ms"]) / 1000

    since = time.monotonic()
    for number in range(requests):
        waits.append(sent(number % PARTITIONS))
        pause.wait(waits[-1])
    seconds = time.monotonic() - since
    assert requests * size <= rate * (TOLERATED * seconds + UNCOUNTED_S) + size
    assert sum(wait_s > 0 for wait_s in waits) > requests / 2
