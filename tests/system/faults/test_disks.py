"""Disks that fill up or lose power: a full one refuses writes and serves reads, and what was acknowledged stays."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic, ResourceType

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import iter_batches
from services.local.probe import ask
from tests.compat.clients.admin import Admin
from tests.gateway.kafka_client import Fetched, RawClient, fetch_body, produce_body
from tests.storage.cluster import batch
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.system.faults.produce_run import ProduceRun
from tests.system.faults.raw_connection import raw_client
from tests.system.faults.small_disks import cut_power, free_bytes, power_on, small_disk

MIB = 1 << 20
DELIVERY_MS = 20_000
"""Less than `replica.lag.time.max.ms`, 30,000."""
EVERLASTING = {"retention.ms": "-1"}
"""The records of `batch` are very old. Retention looks for such 30 s after a start."""
VERSION = 9
READ_VERSION = 11


@pytest.fixture(params=["ext4", "tmpfs"])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[LocalCluster, Path]]:
    """A cluster whose only storage node has 48 MiB."""
    with small_disk(request.param, tmp_path, 48) as disk:
        storage = {"PENSTOCK_LOG_DIRS": str(disk / "logs")}
        gateway = {
            "PENSTOCK_OPEN_FILE_IDLE_S": "0.2"
        }  # it reads the same files, and a file takes its space while anyone has it open
        with LocalCluster(environment_of={"storage-1": storage, "gateway-1": gateway}) as cluster:
            admin = Admin(cluster.bootstrap)
            admin.set_config(ResourceType.BROKER, "1", "log.segment.delete.delay.ms", "100")
            admin.close()
            yield cluster, disk


class Filler:
    """Writes batches that can be told apart, and remembers those that were acknowledged."""

    def __init__(self, client: RawClient, topic: str) -> None:
        self.topic = topic
        self.stored: dict[int, bytes] = {}  # offset -> value
        self.client = client
        self._number = 0

    async def write(self, size: int) -> int:
        """Answers the error code."""
        self._number += 1
        value = b"%d " % self._number + os.urandom(size)
        (answer,) = await self.client.produce(
            VERSION, produce_body(VERSION, [(self.topic, [(0, batch(value))])], timeout_ms=600_000)
        )
        if answer.error == 0:
            self.stored[answer.base_offset] = value
        return answer.error

    async def until_full(self) -> None:
        """First in large steps, then in small ones."""
        for size in (900_000, 100_000, 5_000, 300):
            for _ in range(200):
                if (error := await self.write(size)) != 0:
                    assert error == ErrorCode.KAFKA_STORAGE_ERROR
                    break
            else:
                raise AssertionError("it never got full")

    async def readable(self, client: RawClient, offset: int = 0) -> None:
        async with asyncio.timeout(60):
            while (found := await self._fetch(client, offset)).error != 0 or not found.records:
                pass

    async def _fetch(self, client: RawClient, offset: int) -> Fetched:
        _, (of_partition,) = await client.fetch(READ_VERSION, fetch_body(READ_VERSION, [(self.topic, [(0, offset)])]))
        return of_partition

    async def read_back(self, client: RawClient) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        while len(found) < max(self.stored) + 1:
            of_partition = await self._fetch(client, len(found))
            assert of_partition.error == 0
            assert of_partition.records, f"nothing at {len(found)}"
            for one in iter_batches(memoryview(of_partition.records)):
                found[one.header.base_offset] = bytes(one.view)
        return found

    async def check(self, client: RawClient) -> None:
        found = await self.read_back(client)
        missing = [offset for offset, value in self.stored.items() if value not in found[offset]]
        assert not missing, "what was acknowledged there is not there"


async def test_a_full_disk_refuses_writes_and_serves_reads_until_there_is_room_again(small: tuple[LocalCluster, Path]) -> None:
    cluster, disk = small
    admin = Admin(cluster.bootstrap)
    ballast = disk / "ballast"
    take_space(ballast, 2 * MIB)
    for topic in ("kept", "goes"):
        admin.create(topic, config=EVERLASTING)
    async with raw_client(cluster.shape.port + 1) as client:
        goes, kept = Filler(client, "goes"), Filler(client, "kept")
        for _ in range(20):
            assert await goes.write(500_000) == 0
        await kept.until_full()
        await kept.check(client)
        assert await kept.write(100_000) == ErrorCode.KAFKA_STORAGE_ERROR
        await goes.check(client)
        admin_port = cluster.shape.admin_port("storage", 1)
        ready, said = ask(admin_port, "/readyz", timeout_s=10)
        assert (ready, said) == (False, f"log directory full, appends are refused: {disk}/logs")

        before = free_bytes(disk)
        admin.delete("goes")
        eventually(lambda: free_bytes(disk) > before + 8 * MIB)
        eventually(lambda: ask(admin_port, "/readyz", timeout_s=10)[0])
        for _ in range(5):
            assert await kept.write(500_000) == 0
        await kept.check(client)
        await kept.until_full()
    cluster.restart("storage-1", signal.SIGKILL)
    ballast.unlink()  # to open a log after a crash takes a little room
    async with raw_client(cluster.shape.port + 1) as client:
        await kept.readable(client)
        await kept.check(client)


async def test_a_partition_on_a_completely_full_disk_is_served_after_a_kill(small: tuple[LocalCluster, Path]) -> None:
    cluster, disk = small
    ballast = disk / "ballast"
    take_space(ballast, 2 * MIB)
    Admin(cluster.bootstrap).create("kept", config=EVERLASTING)
    async with raw_client(cluster.shape.port + 1) as client:
        kept = Filler(client, "kept")
        await kept.until_full()
    take_what_is_left(disk / "crumbs")
    cluster.restart("storage-1", signal.SIGKILL)
    take_what_is_left(disk / "more-crumbs")
    async with raw_client(cluster.shape.port + 1) as client:
        kept.client = client
        await kept.readable(client, max(kept.stored))  # its end is shown once a round has synced what was found
        await kept.check(client)
        assert await kept.write(5_000) == ErrorCode.KAFKA_STORAGE_ERROR
        ballast.unlink()
        partition = disk / "logs" / "kept-0"
        eventually(lambda: any(partition.glob("*.resume")))  # what there was no room for comes before anybody writes
        assert await kept.write(300) == 0
        await kept.check(client)


async def test_a_topic_that_does_not_fit_any_more_is_there_once_it_fits(small: tuple[LocalCluster, Path]) -> None:
    cluster, disk = small
    admin = Admin(cluster.bootstrap)
    admin.create("kept", config=EVERLASTING)
    ballast = disk / "ballast"
    take_space(ballast, free_bytes(disk) - 4 * MIB)
    async with raw_client(cluster.shape.port + 1) as client:
        kept, late = Filler(client, "kept"), Filler(client, "late")
        await kept.until_full()
        take_what_is_left(disk / "crumbs")
        admin.client.create_topics([NewTopic("late", 1, -1)])["late"].result()
        assert await late.write(100_000) in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await kept.check(client)
        ballast.unlink()
        async with asyncio.timeout(60):
            while await late.write(100_000) != 0:
                pass
        await late.check(client)


def test_a_full_disk_of_one_replica_holds_up_no_acks_all_and_its_replicas_come_back(tmp_path: Path) -> None:
    """Deliveries have less time than a follower may lag. The full disk has a leader and two followers."""
    with (
        small_disk("tmpfs", tmp_path, 96) as disk,
        LocalCluster(storage=3, environment_of={"storage-1": {"PENSTOCK_LOG_DIRS": str(disk / "logs")}}) as cluster,
    ):
        admin = Admin(cluster.bootstrap)
        admin.create("t", partitions=3, replicas=3)
        ballast = disk / "ballast"
        take_space(ballast, free_bytes(disk) - 24 * MIB)
        failed: list[object] = []
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "delivery.timeout.ms": DELIVERY_MS})

        def delivered(error: object, message: object) -> None:
            if error is not None:
                failed.append(error)

        def write(mib: int) -> None:
            for number in range(10 * mib):
                producer.produce("t", os.urandom(100_000), partition=number % 3, on_delivery=delivered)
                producer.poll(0)
            assert producer.flush(60) == 0
            assert not failed

        write(12)
        assert in_sync(admin, "t") == [{1, 2, 3}] * 3
        write(48)
        eventually(lambda: in_sync(admin, "t") == [{2, 3}] * 3)
        said = json.loads(ask(cluster.shape.admin_port("gateway", 1), "/health", timeout_s=10)[1])
        assert f"{disk}/logs of storage-1 is full" in said["sentence"]
        assert said["only_full"]
        full = {"storage-1": f"log directory full, appends are refused: {disk}/logs"}
        assert cluster.up() == full
        ballast.unlink()
        eventually(lambda: in_sync(admin, "t") == [{1, 2, 3}] * 3)
        write(3)
        admin.close()


def in_sync(admin: Admin, topic: str) -> list[set[int]]:
    partitions = admin.client.list_topics(topic, timeout=10).topics[topic].partitions
    return [set(partitions[index].isrs) for index in sorted(partitions)]


def take_space(file: Path, size: int) -> None:
    with open(file, "wb") as opened:
        os.posix_fallocate(opened.fileno(), 0, size)


def take_what_is_left(file: Path) -> None:
    with open(file, "wb", buffering=0) as opened:
        for block in (65_536, 4096, 512):
            with contextlib.suppress(OSError):
                while True:
                    opened.write(bytes(block))


def test_acknowledged_records_survive_a_power_cut(tmp_path: Path) -> None:
    with (
        small_disk("ext4", tmp_path, 96) as disk,
        LocalCluster(
            environment_of={"storage-1": {"PENSTOCK_LOG_DIRS": str(disk / "logs")}}, expected_complaints="log directory retired"
        ) as cluster,
    ):
        Admin(cluster.bootstrap).create("t", 3)
        with ProduceRun(cluster.bootstrap, "t", partitions=3) as run:
            for _ in range(2):
                run.advance()
                cut_power(disk)
                cluster.kill("storage-1")
                power_on(disk)
                cluster.start("storage-1")
                run.advance()
            run.finish()
        run.check(cluster.bootstrap)
