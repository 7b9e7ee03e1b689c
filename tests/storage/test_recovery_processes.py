"""After a crash a log with much to read is recovered in a child process; what becomes of it, and of the child, is told."""

import asyncio
import errno
import logging
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.model.config import LogConfig
from libs.commitlog.partition_log.recovery_job import recover
from libs.runtime.children import ChildDied, ChildProcesses, Children
from libs.wire.errors import ErrorCode
from tests.commitlog.harness import append_some, open_log
from tests.storage.cluster import StorageCluster, batch
from tests.storage.held_children import HeldChildren
from tests.storage.held_disk import HeldDisk
from tests.support.inline_children import InlineChildren
from tests.support.polling import until


@pytest.fixture(autouse=True)
def much_is_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.storage.reconcile.log_opening.READ_HERE_BYTES_MAX", 1000)
    monkeypatch.setattr("services.storage.reconcile.recovery.PROGRESS_S", 0.01)


def log_directory(cluster: StorageCluster) -> Path:
    return Path(cluster.config.directories[0])


async def crashed(cluster: StorageCluster, *, partitions: int = 1, batches: int = 50) -> bytes:
    """A topic whose partitions hold so many batches that nobody synced; the node is down."""
    topic = await cluster.topic("t", partitions=partitions)
    for index in range(partitions):
        await cluster.append(topic, batch(b"first"), index=index)
    await cluster.stop()
    for index in range(partitions):
        append_some(open_log(log_directory(cluster) / f"t-{index}", OsFileSystem(), LogConfig()), batches, size=100)
    (log_directory(cluster) / ".kafka_cleanshutdown").unlink()
    return topic


async def ends_at(cluster: StorageCluster, topic: bytes, offset: int, index: int = 0) -> None:
    async def does() -> bool:
        return (await cluster.list_offset(topic, -1, index=index)).offset == offset

    await until(does)


async def lead_again(cluster: StorageCluster, topic: bytes, partitions: int = 1) -> None:
    for index in range(partitions):
        await cluster.state(topic, index, epoch=1)
        await cluster.leads(topic, index, 1)


def scanned(cluster: StorageCluster) -> list[int]:
    assert cluster.node is not None
    return [partition.log.scanned_bytes for partition, _ in cluster.node.opened.open_logs.all()]


def logged(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    return [record.__dict__["fields"] for record in caplog.records if record.message == message]


def recover_by(cluster: StorageCluster, children: Callable[[str, int, int], Children]) -> None:
    """All other jobs for children run in this process."""
    cluster.children = lambda name, count, nice: children(name, count, nice) if name == "recovery" else InlineChildren()


class Stand(InlineChildren):
    """In the place of a child: `around` is called with what the child would do."""

    def __init__(self, around: Callable[[Callable[[], Any]], Any]) -> None:
        self.around = around

    def run(self, work: Any, argument: Any, on_progress: Any = None, *, quiet_s: float | None = None) -> Any:
        return self.around(lambda: super(Stand, self).run(work, argument, on_progress))


async def test_logs_with_much_to_read_are_read_in_child_processes(
    cluster: StorageCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    topic = await crashed(cluster, partitions=3, batches=2000)
    asked: list[tuple[str, int, int]] = []

    def children(name: str, count: int, nice: int) -> Children:
        asked.append((name, count, nice))
        return ChildProcesses(name, count, nice=nice)

    recover_by(cluster, children)
    await cluster.start()
    await lead_again(cluster, topic, 3)
    assert asked == [("recovery", asked[0][1], 0)]
    assert asked[0][1] >= 1
    assert scanned(cluster) == [0, 0, 0]
    for index in range(3):
        await ends_at(cluster, topic, 2001, index)
    summary = logged(caplog, "recovery processes are done")
    assert [line["logs"] for line in summary] == [3]
    assert max(line["left"] for line in logged(caplog, "recovery")) == 3
    recovered = logged(caplog, "recovered")
    assert sorted(Path(line["path"]).name for line in recovered) == ["t-0", "t-1", "t-2"]
    assert all(line["scanned"] > 300_000 and line["cut"] == 0 for line in recovered)


async def test_a_node_that_opens_logs_says_how_far_it_is(cluster: StorageCluster) -> None:
    await crashed(cluster, partitions=2, batches=2000)
    held = HeldChildren()
    recover_by(cluster, lambda name, count, nice: held)
    starting = asyncio.create_task(cluster.start())
    await until(lambda: len(held.jobs) == 2)
    assert cluster.node is not None
    ready, why = cluster.node.ready()
    assert not ready
    assert re.fullmatch(r"opening logs: 0 of 2 are open, [1-9]\d* MiB to recover", why)
    for job in held.jobs:
        job.do()
    await starting
    assert cluster.node.ready() == (True, "")


async def test_a_log_with_little_to_read_costs_no_process(cluster: StorageCluster) -> None:
    topic = await crashed(cluster, batches=3)

    def children(name: str, count: int, nice: int) -> Children:
        raise AssertionError("a process for nothing")

    recover_by(cluster, children)
    await cluster.start()
    await lead_again(cluster, topic)
    assert scanned(cluster)[0] > 0


async def test_a_log_whose_child_was_killed_is_recovered_all_the_same(
    cluster: StorageCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await crashed(cluster)

    def die(work: Callable[[], Any]) -> Any:
        future = asyncio.get_running_loop().create_future()
        future.set_exception(ChildDied("out of memory"))
        return future

    recover_by(cluster, lambda name, count, nice: Stand(die))
    await cluster.start()
    await lead_again(cluster, topic)
    await ends_at(cluster, topic, 51)
    assert scanned(cluster)[0] > 1000
    assert re.search("recovery process died", caplog.text)


def stop_self(how: Any, report: Any) -> Any:
    os.kill(os.getpid(), signal.SIGSTOP)
    return recover(how, report)


async def test_a_child_that_hangs_is_killed_and_the_log_tried_again(
    cluster: StorageCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await crashed(cluster)
    monkeypatch.setattr("services.storage.threads.quiet_times.QUIET_S", 0.5)
    monkeypatch.setattr("services.storage.reconcile.replica_opening.RETRY_S", 1.0)
    monkeypatch.setattr("services.storage.reconcile.recovery.recover", stop_self)
    recover_by(cluster, lambda name, count, nice: ChildProcesses(name, count, nice=nice))
    await cluster.start()
    await cluster.state(topic, 0, epoch=1)
    await until(lambda: "recovery process hangs" in caplog.text)
    monkeypatch.undo()
    await cluster.leads(topic, 0, 1)
    await ends_at(cluster, topic, 51)


async def test_a_sync_that_fails_in_a_child_retires_the_directory(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await crashed(cluster)

    def failing(work: Callable[[], Any]) -> Any:
        disk.fail_syncs = errno.EIO
        try:
            return work()
        finally:
            disk.fail_syncs = None

    recover_by(cluster, lambda name, count, nice: Stand(failing))
    await cluster.start()
    await cluster.state(topic, epoch=1)
    await until(lambda: (log_directory(cluster) / ".retired").exists())
    assert (await cluster.append(topic, batch(b"x"))).error == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_sync_that_fails_before_anything_is_read_retires_the_directory_too(
    cluster: StorageCluster, disk: HeldDisk
) -> None:
    topic = await crashed(cluster)
    disk.fail_syncs, disk.fail_syncs_below = errno.EIO, str(log_directory(cluster))
    await cluster.start()
    await cluster.state(topic, epoch=1)
    await until(lambda: (log_directory(cluster) / ".retired").exists())
    disk.fail_syncs = None
    assert (await cluster.append(topic, batch(b"x"))).error == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_log_that_a_full_disk_makes_a_node_read_twice_is_reported_once(
    cluster: StorageCluster, disk: HeldDisk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    topic = await crashed(cluster)
    (segment,) = (log_directory(cluster) / "t-0").glob("*.log")
    size = segment.stat().st_size

    def work_on_a_full_disk(work: Callable[[], Any]) -> Any:
        disk.fail_writes = errno.ENOSPC
        done = work()
        disk.fail_writes = None
        return done

    recover_by(cluster, lambda name, count, nice: Stand(work_on_a_full_disk))
    await cluster.start()
    await lead_again(cluster, topic)
    await ends_at(cluster, topic, 51)
    assert scanned(cluster)[0] > size / 2
    assert [size / 2 < line["scanned"] <= size for line in logged(caplog, "recovered")] == [True]


async def test_damage_that_a_child_finds_keeps_the_partition_offline_and_others_go_on(cluster: StorageCluster) -> None:
    topic = await crashed(cluster, partitions=2)
    one = next((log_directory(cluster) / "t-0").glob("*.log"))
    one.write_bytes(b"")
    await cluster.start()
    await cluster.state(topic, 0, epoch=1)
    await lead_again_at(cluster, topic, 1)
    assert (await cluster.append(topic, batch(b"x"), index=0)).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await cluster.append(topic, batch(b"x"), index=1)).base_offset == 51


async def lead_again_at(cluster: StorageCluster, topic: bytes, index: int) -> None:
    await cluster.state(topic, index, epoch=1)
    await cluster.leads(topic, index, 1)


async def test_a_node_that_recovers_can_be_stopped(cluster: StorageCluster) -> None:
    await crashed(cluster)
    begun = asyncio.Event()

    def never(work: Callable[[], Any]) -> Any:
        begun.set()
        return asyncio.get_running_loop().create_future()

    recover_by(cluster, lambda name, count, nice: Stand(never))
    starting = asyncio.ensure_future(cluster.start())
    await begun.wait()
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await cluster.stop()
    assert not (log_directory(cluster) / ".kafka_cleanshutdown").exists()
