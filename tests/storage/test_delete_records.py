"""DeleteRecords at a storage node: the start is on the disk before anybody hears of it, and never goes back."""

import asyncio
import errno
import threading

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides
from libs.commitlog.partition_log.directory import LOG_START_OFFSETS
from libs.rpc.contracts.storage import DELETE_RECORDS, DeletedRecords, DeleteRecords, DeleteRecordsPartition, DeleteRecordsReply
from libs.rpc.messages.schema import unpack
from libs.wire.errors import ErrorCode
from tests.storage.cluster import WAIT_S, StorageCluster, batch, directory, partition_of
from tests.storage.held_disk import HeldDisk
from tests.storage.retention import earliest, make, names, starts_on_disk
from tests.support.polling import until

VALUE = b"x" * 80


async def fill(cluster: StorageCluster, topic: bytes, batches: int = 10) -> None:
    for _ in range(batches):
        assert (await cluster.append(topic, batch(VALUE))).error == 0


async def test_the_log_starts_at_the_offset_and_files_before_it_go(cluster: StorageCluster) -> None:
    topic = await make(cluster, "cut")
    await fill(cluster, topic)
    before = names(directory(cluster, "cut"), ".log")
    assert await cluster.delete_records(topic, 5) == DeletedRecords(0, 5)
    assert starts_on_disk(cluster) == {("cut", 0): 5}
    assert await earliest(cluster, topic) == 5
    assert (await cluster.fetch(topic, 4)).error == ErrorCode.OFFSET_OUT_OF_RANGE
    part = await cluster.fetch(topic, 5)
    assert (part.error, part.log_start_offset, part.high_watermark) == (0, 5, 10)
    await until(lambda: not set(before[:2]) & set(names(directory(cluster, "cut"), ".log")))
    await until(lambda: not names(directory(cluster, "cut"), ".deleted"))
    assert (await cluster.fetch(topic, 5)).error == 0


async def test_minus_one_is_the_high_watermark_and_the_log_goes_on(cluster: StorageCluster) -> None:
    topic = await make(cluster, "all")
    await fill(cluster, topic)
    assert await cluster.delete_records(topic, -1) == DeletedRecords(0, 10)
    assert await earliest(cluster, topic) == 10
    assert (await cluster.append(topic, batch(VALUE))).base_offset == 10
    assert (await cluster.fetch(topic, 10)).high_watermark == 11


async def test_asking_twice_or_for_less_changes_nothing(cluster: StorageCluster) -> None:
    topic = await make(cluster, "again")
    await fill(cluster, topic)
    for offset in (5, 5, 0, 3):
        assert await cluster.delete_records(topic, offset) == DeletedRecords(0, 5)


@pytest.mark.parametrize("offset", [11, -2, -(1 << 63), (1 << 63) - 1])
async def test_an_offset_outside_of_the_log_is_refused(cluster: StorageCluster, offset: int) -> None:
    topic = await make(cluster, "outside")
    await fill(cluster, topic)
    assert await cluster.delete_records(topic, offset) == DeletedRecords(int(ErrorCode.OFFSET_OUT_OF_RANGE))
    assert await earliest(cluster, topic) == 0


async def test_uncommitted_records_cannot_be_deleted(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await make(cluster, "uncommitted")
    await fill(cluster, topic, 4)
    disk.hold()
    await cluster.append(topic, batch(VALUE), acks=1)
    assert partition_of(cluster, topic).log_end_offset == 5
    assert (await cluster.delete_records(topic, 5)).error == ErrorCode.OFFSET_OUT_OF_RANGE
    disk.release()


@pytest.mark.parametrize(
    ("policy", "error"), [("compact", ErrorCode.POLICY_VIOLATION), ("compact,delete", 0), ("delete", 0), ("", 0)]
)
async def test_a_topic_that_is_only_compacted_refuses(cluster: StorageCluster, policy: str, error: int) -> None:
    topic = await make(cluster, "policy")
    await fill(cluster, topic)
    await cluster.write(keys.config("topic", "policy"), encode(ConfigOverrides({"cleanup.policy": policy})))
    wanted = tuple(item for item in policy.split(",") if item)
    await until(lambda: partition_of(cluster, topic).config.cleanup_policy == wanted)
    assert (await cluster.delete_records(topic, 5)).error == error


async def test_partitions_that_are_not_here_or_not_led_are_refused(cluster: StorageCluster) -> None:
    topic = await make(cluster, "led")
    assert (await cluster.delete_records(bytes(16), 0)).error == ErrorCode.UNKNOWN_TOPIC_ID
    assert (await cluster.delete_records(topic, 0, index=1)).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await cluster.state(topic, epoch=1, leader=7)
    await until(lambda: not partition_of(cluster, topic).leading)
    assert (await cluster.delete_records(topic, 0)).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_several_partitions_share_one_checkpoint(cluster: StorageCluster) -> None:
    topic = await cluster.topic("shared", partitions=3, internal_segment_bytes="300")
    for index in range(3):
        for _ in range(4):
            await cluster.append(topic, batch(VALUE), index=index)
    wanted = tuple(DeleteRecordsPartition(topic, index, offset) for index, offset in ((0, 1), (1, 99), (2, -1)))
    assert cluster.client is not None
    reply = await cluster.client.call(DELETE_RECORDS, DeleteRecords(5000, wanted), timeout_s=WAIT_S)
    assert unpack(DeleteRecordsReply, reply.body).partitions == (DeletedRecords(0, 1), DeletedRecords(1), DeletedRecords(0, 4))
    assert starts_on_disk(cluster) == {("shared", 0): 1, ("shared", 1): 0, ("shared", 2): 4}


async def test_nobody_sees_a_start_that_is_not_on_the_disk(cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await make(cluster, "unwritten")
    await fill(cluster, topic)
    rename = cluster.fs.rename

    def refusing(source: str, target: str) -> None:
        if target.endswith(LOG_START_OFFSETS):
            raise OSError(errno.EIO, "not now")
        rename(source, target)

    monkeypatch.setattr(cluster.fs, "rename", refusing)
    assert (await cluster.delete_records(topic, 5)).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert await earliest(cluster, topic) == 0
    monkeypatch.undo()
    assert await cluster.delete_records(topic, 5) == DeletedRecords(0, 5)


async def test_a_slow_disk_answers_that_the_time_is_up_and_deletes_later(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.storage.cleanup.delete_records.TIMEOUT_MS_MIN", 1)
    topic = await make(cluster, "slow")
    await fill(cluster, topic)
    rename, may_go = cluster.fs.rename, threading.Event()

    def slow(source: str, target: str) -> None:
        if target.endswith(LOG_START_OFFSETS):
            may_go.wait()
        rename(source, target)

    monkeypatch.setattr(cluster.fs, "rename", slow)
    try:
        assert await cluster.delete_records(topic, 5, timeout_ms=20) == DeletedRecords(int(ErrorCode.REQUEST_TIMED_OUT), 0)
        assert await earliest(cluster, topic) == 0
    finally:
        may_go.set()

    async def moved() -> bool:
        return await earliest(cluster, topic) == 5

    await until(moved)


async def test_a_start_that_was_announced_meanwhile_waits_for_its_own_checkpoint(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await make(cluster, "meanwhile")
    await fill(cluster, topic)
    rename, turns, reached = cluster.fs.rename, threading.Semaphore(0), threading.Semaphore(0)

    def counted(source: str, target: str) -> None:
        if target.endswith(LOG_START_OFFSETS):
            reached.release()
            turns.acquire()
        rename(source, target)

    monkeypatch.setattr(cluster.fs, "rename", counted)
    first = asyncio.create_task(cluster.delete_records(topic, 3))
    await asyncio.to_thread(reached.acquire)
    second = asyncio.create_task(cluster.delete_records(topic, 7))
    await until(lambda: partition_of(cluster, topic).log.next_start_offset == 7)
    turns.release()
    assert await first == DeletedRecords(0, 3)
    assert await earliest(cluster, topic) == 3
    turns.release(10)
    assert await second == DeletedRecords(0, 7)


async def test_deleted_records_do_not_come_back(cluster: StorageCluster) -> None:
    topic = await make(cluster, "gone")
    await fill(cluster, topic)
    await cluster.delete_records(topic, 7)
    await cluster.stop()
    await cluster.start()
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)
    assert (await earliest(cluster, topic), (await cluster.list_offset(topic, -1)).offset) == (7, 10)
    assert (await cluster.append(topic, batch(VALUE))).base_offset == 10


async def test_a_start_with_another_digit_removes_nothing(cluster: StorageCluster, caplog: pytest.LogCaptureFixture) -> None:
    topic = await make(cluster, "flipped")
    await fill(cluster, topic)
    assert await cluster.delete_records(topic, 1) == DeletedRecords(0, 1)
    before = names(directory(cluster, "flipped"), ".log")
    await cluster.stop()
    checkpoint = directory(cluster, "flipped").parent / LOG_START_OFFSETS
    checkpoint.write_text(checkpoint.read_text(encoding="utf-8").replace("flipped 0 1", "flipped 0 9"), encoding="utf-8")
    await cluster.start()
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, 0, 1)
    assert await earliest(cluster, topic) == 0
    assert names(directory(cluster, "flipped"), ".log") == before
    assert "checksum" in caplog.text
