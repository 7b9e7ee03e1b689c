"""Processes that should not run, that come back after a crash, or that run on another host."""

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import iter_batches
from services.local.python_setup import venv_python
from tests.compat.clients.admin import Admin
from tests.gateway.kafka_client import fetch_body, produce_body
from tests.storage.cluster import batch
from tests.support.cluster_harness import LocalCluster
from tests.support.open_files import open_files
from tests.support.polling import eventually
from tests.support.requirements import ROOT
from tests.system.faults.produce_run import ProduceRun, Tail
from tests.system.faults.raw_connection import raw_client

VERSION = 9
READ_VERSION = 11
GIB = 1 << 30


@pytest.fixture
def alone() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


def test_a_second_storage_process_on_the_same_data_refuses_to_start(alone: LocalCluster, topic: str) -> None:
    Admin(alone.bootstrap).create(topic)
    with ProduceRun(alone.bootstrap, topic) as run:
        run.advance()
        environment = {
            **os.environ,
            "PENSTOCK_NODE_ID": "1",
            "PENSTOCK_DATA_DIR": str(alone.data_directory("storage-1")),
            "PENSTOCK_ETCD": alone.etcd_endpoint,
            "PENSTOCK_RPC_UNIX": str(alone.run.socket("storage-1")),
        }
        before = identity_of(alone.data_directory("storage-1"))
        second = subprocess.run(
            [str(venv_python(ROOT)), "-m", "services.storage"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
        )
        assert second.returncode not in (0, -signal.SIGSEGV)
        assert "is in use by another storage process" in second.stderr
        assert "Traceback" not in second.stderr
        assert identity_of(alone.data_directory("storage-1")) == before
        run.advance()
        run.finish()
    run.check(alone.bootstrap)


def identity_of(data: Path) -> dict[Path, tuple[int, bytes]]:
    """The files that a process writes once, at its start, and that only it may write."""
    once = [path for name in ("incarnation", "meta.properties", ".lock") for path in data.rglob(name)]
    return {path: (path.stat().st_ino, path.read_bytes()) for path in once} | {
        path: (path.stat().st_ino, b"") for path in data.rglob("*.log")
    }


async def test_of_a_gigabyte_of_log_a_node_reads_little_before_it_is_ready_after_a_crash(topic: str) -> None:
    often = {"PENSTOCK_RECOVERY_CHECKPOINT_S": "1"}
    with LocalCluster(environment_of={"storage-1": often}) as alone:
        Admin(alone.bootstrap).create(topic, config={"durability": "replicated"})
        records = batch(os.urandom(1_000_000))
        count = GIB // len(records) + 1
        async with raw_client(alone.shape.port + 1) as client:
            body = produce_body(VERSION, [(topic, [(0, records)])], acks=1)
            for start in range(0, count, 4):
                for number in range(start, min(start + 4, count)):
                    client.ask(0, VERSION, body, correlation_id=number)
                await client.drain()
                for _ in range(start, min(start + 4, count)):
                    await client.answer(0, VERSION)
        partition = alone.data_directory("storage-1") / "logs" / f"{topic}-0"
        eventually(lambda: any(int(point.stem) > count * 0.9 for point in partition.glob("*.resume")))
        alone.kill("storage-1")
        alone.start("storage-1")
        alone.wait_ready(["storage-1"])
        # Behind a resume point that covers all of it there is nothing to read, and to say.
        scanned = re.findall(r'event="recovered" .*scanned=(\d+)', alone.log("storage-1"))
        assert sum(map(int, scanned)) < GIB / 4
        body = fetch_body(READ_VERSION, [(topic, [(0, count - 1)])])
        async with raw_client(alone.shape.port + 1) as client, asyncio.timeout(60):
            _, (found,) = await client.fetch(READ_VERSION, body)
            while found.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:  # the node is ready, and elected a moment later
                _, (found,) = await client.fetch(READ_VERSION, body)
        assert (found.error, found.high_watermark) == (0, count)
        assert found.records[61:] == records[61:]


@pytest.mark.parametrize("damage", ["garbage", "half a batch", "zeros"])
async def test_a_log_with_a_torn_tail_is_cut_where_the_damage_begins(alone: LocalCluster, topic: str, damage: str) -> None:
    Admin(alone.bootstrap).create(topic)
    async with raw_client(alone.shape.port + 1) as client:
        for number in range(50):
            body = produce_body(VERSION, [(topic, [(0, batch(b"acknowledged %d" % number))])])
            assert (await client.produce(VERSION, body))[0].error == 0
    alone.kill("storage-1")
    (file,) = alone.data_directory("storage-1").glob(f"logs/{topic}-0/*.log")
    extra = {"garbage": os.urandom(70_000), "half a batch": bytes(batch(b"never acknowledged")[:-3]), "zeros": bytes(10_000)}
    with open(file, "ab") as log:  # noqa: ASYNC230 - there is nothing else in this loop
        log.write(extra[damage])
    alone.start("storage-1")
    alone.wait_ready(["storage-1"])
    async with raw_client(alone.shape.port + 1) as client:
        body = produce_body(VERSION, [(topic, [(0, batch(b"after"))])])
        (answer,) = await client.produce(VERSION, body)
        assert (answer.error, answer.base_offset) == (0, 50)
        _, (found,) = await client.fetch(READ_VERSION, fetch_body(READ_VERSION, [(topic, [(0, 0)])]))
    read = list(iter_batches(memoryview(found.records)))
    assert [one.header.base_offset for one in read] == list(range(51))
    assert all(one.crc_matches for one in read)
    segments = sorted(alone.data_directory("storage-1").glob(f"logs/{topic}-0/*.log"))
    assert sum(segment.stat().st_size for segment in segments) == sum(len(one.view) for one in read), "nothing else is left"


def test_a_gateway_on_another_host_serves_by_tcp_what_it_cannot_share(topic: str) -> None:
    """The gateway gets no descriptors and no Unix sockets: records travel in the RPC, both ways."""
    by_tcp = {"PENSTOCK_RPC_TCP": "127.0.0.1:0"}
    settings = {"storage-1": by_tcp, "controller-1": by_tcp, "gateway-1": {"PENSTOCK_HOST_ID": "elsewhere"}}
    with LocalCluster(environment_of=settings) as cluster:
        Admin(cluster.bootstrap).create(topic, 2)
        with ProduceRun(cluster.bootstrap, topic, partitions=2) as run, Tail(cluster.bootstrap, topic, partitions=2) as tail:
            run.advance()
            cluster.restart("storage-1", signal.SIGKILL)
            run.advance()
            run.finish()
            tail.catch_up(run)
        run.check(cluster.bootstrap)
        assert cluster.log("gateway-1").count("address=tcp:") >= 2
        assert not [name for name in open_files(cluster.pid("gateway-1")) if f"{topic}-" in name]
        assert "address=unix:" not in cluster.log("gateway-1")
