"""The memory of a gateway, and of a storage node, under clients that send much and wait long, with the settings that they have by
default. One test has processes for both, and one a node, whose memory is that of both."""

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batch_layout import Codec
from libs.wire.record_batches.records import Record, build_batch
from services.local.cluster_shape import NODE_ROLES, SERVICE_ROLES
from tests.compat.clients.admin import Admin
from tests.gateway.kafka_client import FETCH, METADATA, PRODUCE, fetch_body, frame, produce_body, read_produced
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import rounds
from tests.system.faults.hostile_sockets import Attack
from tests.system.faults.produce_run import ProduceRun, Tail
from tests.system.faults.raw_connection import raw_client
from tests.system.faults.timestamp_lookups import TimestampLookups

MIB = 1 << 20
MEMORY_MAX = 300_000_000
REQUEST_TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)


@pytest.fixture(scope="module")
def target(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(roles=request.param) as cluster:
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


def peaks_with_children(target: LocalCluster, name: str) -> list[int]:
    """The peak of a process in bytes, and those of its children that run."""
    peaks: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it may end meanwhile
                status = (entry / "status").read_text(encoding="utf-8")
                if str(target.pid(name)) in (entry.name, *re.findall(r"PPid:\s+(\d+)", status)):
                    peaks += [int(kib) * 1024 for kib in re.findall(r"VmHWM:\s+(\d+) kB", status)]
    return peaks


@pytest.mark.parametrize("target", [SERVICE_ROLES], indirect=True)
async def test_lookups_in_a_batch_that_is_large_when_decompressed(target: LocalCluster, topic: str) -> None:
    """A few kilobytes that hold 60 MiB. The record that is looked for stands behind them."""
    bomb = f"{topic}-bomb"
    now_ms = int(time.time() * 1000)
    Admin(target.bootstrap).create(topic, 1)
    Admin(target.bootstrap).create(bomb, 1)
    port = target.shape.port + 1
    batch = build_batch([Record(b"k", bytes(60 * MIB), now_ms), Record(b"k", b"v", now_ms + 10)], codec=Codec.ZSTD)
    async with raw_client(port) as client:
        client.ask(PRODUCE, 8, produce_body(8, [(bomb, [(0, bytes(batch))])]))
        _, answer = await client.answer()
        assert [each.error for each in read_produced(answer, 8)[0]] == [0]
    with ProduceRun(target.bootstrap, topic) as run:
        run.advance(100)
        with TimestampLookups(port, bomb, now_ms + 5, connections=16) as lookups:
            for _ in rounds("lookups that a child process has walked for"):
                run.advance(20)
                peaks = peaks_with_children(target, "storage-1")
                if len(lookups.answers) >= 20 and (0, 1) in lookups.answers and len(peaks) > 1:
                    break
            assert sum(peaks) < MEMORY_MAX
        run.advance(100)
        run.finish()
        assert not run.disconnects, run.disconnects[:3]
    run.check(target.bootstrap)
    assert set(lookups.answers) <= {(0, 1), (REQUEST_TIMED_OUT, -1)}
    assert "taken for dead" not in target.log("controller-1")


@pytest.mark.parametrize("target", [NODE_ROLES], indirect=True)
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
