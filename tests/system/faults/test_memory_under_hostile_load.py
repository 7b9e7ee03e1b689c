"""The memory of a gateway under clients that send much and wait long, with the settings that it has by default."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.clients.admin import Admin
from tests.gateway.kafka_client import FETCH, METADATA, fetch_body, frame
from tests.support.cluster_harness import LocalCluster
from tests.system.faults.hostile_sockets import Attack
from tests.system.faults.produce_run import ProduceRun, Tail

MIB = 1 << 20
MEMORY_MAX = 300_000_000


@pytest.fixture(scope="module")
def target() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


def peak_memory_bytes(target: LocalCluster) -> int:
    status = Path(f"/proc/{target.pid('gateway-1')}/status").read_text(encoding="utf-8")
    (peak_kib,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return int(peak_kib) * 1024


def beside_a_client(target: LocalCluster, topic: str, attack: Attack) -> None:
    """The attack goes on while a producer and a consumer work, until the gateway has ended all of it."""
    with ProduceRun(target.bootstrap, topic) as run, Tail(target.bootstrap, topic) as tail:
        run.advance(100)
        before = len(run.acknowledged[0])
        with attack:
            attack.press()
        assert len(run.acknowledged[0]) > before + 100
        run.advance(100)
        run.finish()
        assert not run.disconnects, run.disconnects[:3]
        tail.catch_up(run)
    run.check(target.bootstrap)
    assert peak_memory_bytes(target) < MEMORY_MAX


def test_large_requests_that_pile_up_behind_long_polls_are_not_read(target: LocalCluster, topic: str) -> None:
    """1.5 GB, of which each client may send as much as it likes by its own limits."""
    idle = f"{topic}-idle"
    Admin(target.bootstrap).create(topic, 1)
    Admin(target.bootstrap).create(idle, 1)
    long_poll = frame(FETCH, 11, 1, fetch_body(11, [(idle, [(0, 0)])], max_wait_ms=600_000))
    sent = long_poll + frame(METADATA, 9, 2, bytes(31 * MIB)) + frame(METADATA, 9, 3, bytes(100 * MIB - 100))
    attack = Attack(target.shape.port + 1)
    for number in range(12):
        attack.connect(f"long poll {number}", sent)
    beside_a_client(target, topic, attack)
