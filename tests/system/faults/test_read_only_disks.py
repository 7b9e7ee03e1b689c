"""Disks that turn read-only: under a running node, as ext4 does after an error, and before it starts."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from libs.wire.errors import ErrorCode
from tests.compat.clients.admin import Admin
from tests.gateway.kafka_client import RawClient, fetch_body, produce_body
from tests.storage.cluster import batch
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.system.faults.raw_connection import raw_client
from tests.system.faults.small_disks import small_disk

VERSION, READ_VERSION = 9, 11
REFUSED = {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER}


@contextmanager
def cluster_on(disk: Path) -> Iterator[LocalCluster]:
    storage = {"PENSTOCK_LOG_DIRS": str(disk / "logs")}
    gateway = {"PENSTOCK_OPEN_FILE_IDLE_S": "0.1"}
    complaints = "log directory retired|Read-only file system|Input/output error"
    with LocalCluster(environment_of={"storage-1": storage, "gateway-1": gateway}, expected_complaints=complaints) as cluster:
        yield cluster


def mounts(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True, timeout=60).returncode == 0


def find_an_error(disk: Path) -> None:
    """Makes ext4 believe that it met damage, upon which it takes no more writes: what a failing disk does to a node."""
    subprocess.run(["mount", "-o", "remount,errors=remount-ro", str(disk)], check=True, timeout=60)
    device = subprocess.run(
        ["findmnt", "-no", "SOURCE", str(disk)], capture_output=True, encoding="utf-8", check=True, timeout=60
    )
    Path("/sys/fs/ext4", Path(device.stdout.strip()).name, "trigger_fs_error").write_text("a test\n", encoding="utf-8")


async def produce(client: RawClient, value: bytes) -> int:
    (answer,) = await client.produce(VERSION, produce_body(VERSION, [("t", [(0, batch(value))])], timeout_ms=1000))
    return answer.error


async def values(client: RawClient) -> bytes:
    async with asyncio.timeout(60):
        while True:
            _, (found,) = await client.fetch(READ_VERSION, fetch_body(READ_VERSION, [("t", [(0, 0)])]))
            if found.error == 0:
                return found.records


async def test_a_disk_that_turns_read_only_takes_no_writes_and_keeps_what_it_had(tmp_path: Path) -> None:
    with small_disk("ext4", tmp_path, 48) as disk, cluster_on(disk) as cluster:
        Admin(cluster.bootstrap).create("t")
        async with raw_client(cluster.shape.port + 1) as client:
            for number in range(20):
                assert await produce(client, b"kept %d" % number) == 0
            find_an_error(disk)
            answers = [await produce(client, b"refused %d" % number) for number in range(5)]
            assert answers[0] == ErrorCode.KAFKA_STORAGE_ERROR
            assert set(answers) <= REFUSED, answers
        eventually(lambda: "Read-only file system" in cluster.log("storage-1"))
        assert cluster.is_running("storage-1")
        cluster.kill("storage-1")
        eventually(lambda: mounts("umount", str(disk)))
        assert mounts("mount", "-o", "loop", str(disk.with_suffix(".img")), str(disk))
        (disk / "logs" / ".retired").unlink(missing_ok=True)
        cluster.start("storage-1")
        cluster.wait_ready(["storage-1"])
        async with raw_client(cluster.shape.port + 1) as client:
            found = await values(client)
            assert [b"kept %d" % number in found for number in range(20)] == [True] * 20
            assert await produce(client, b"again") == 0


async def test_a_node_whose_disk_is_read_only_at_its_start_says_so_and_serves_once_it_is_not(tmp_path: Path) -> None:
    with small_disk("ext4", tmp_path, 48) as disk, cluster_on(disk) as cluster:
        Admin(cluster.bootstrap).create("t")
        async with raw_client(cluster.shape.port + 1) as client:
            assert await produce(client, b"kept") == 0
        cluster.kill("storage-1")
        eventually(lambda: mounts("mount", "-o", "remount,ro", str(disk)))
        cluster.start("storage-1")
        eventually(lambda: "Read-only file system" in cluster.log("storage-1"))
        assert mounts("mount", "-o", "remount,rw", str(disk))
        if cluster.is_running("storage-1"):
            cluster.kill("storage-1")
        cluster.start("storage-1")
        cluster.wait_ready(["storage-1"])
        async with raw_client(cluster.shape.port + 1) as client:
            assert b"kept" in await values(client)
