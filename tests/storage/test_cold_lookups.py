"""No event loop waits for a disk: lookups that the page cache cannot answer wait for a thread of their disk.

The `disk` fixture fails a test in which the loop itself read something that was not in the page cache.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.clock import SystemClock
from libs.commitlog.model.config import LogConfig
from libs.rpc.contracts.log_layout import LOG_LAYOUT, LogLayoutReply, LogLayoutRequest
from libs.rpc.contracts.storage import FETCH, OPEN_FILE, Fetch, FetchPartition, OpenFile, OpenFileReply
from libs.rpc.messages.schema import unpack
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import iter_batches
from services.storage.disks import disk_reads
from services.storage.disks.disk_opening import READS_AT_ONCE
from services.storage.fetch import fetches
from tests.storage.cluster import WAIT_S, StorageCluster, appended, batch, directory, fetched, parked, partition_of
from tests.storage.fake_follower import FakeFollower, at, replicated_topic
from tests.storage.held_disk import HeldDisk
from tests.storage.naming_controller import NamingController
from tests.storage.retention import check
from tests.storage.two_directories import home, with_two_directories
from tests.support.polling import until

START = 1_700_000_000_000
BATCHES = 1500
"""Enough for several segments, whose indexes have more than one block."""


@pytest.fixture
async def two(cluster: StorageCluster) -> AsyncIterator[FakeFollower]:
    follower = await FakeFollower(cluster, 2).register()
    yield follower
    await follower.close()


async def fill(cluster: StorageCluster, topic: bytes, batches: int = BATCHES) -> None:
    partition_of(cluster, topic).log.config = LogConfig(segment_bytes=50_000, index_interval_bytes=0)
    for first in range(0, batches, 50):
        sent = [(topic, 0, batch(b"%d" % number, timestamp=START + number)) for number in range(first, min(first + 50, batches))]
        assert not any(part.error for part in appended(await cluster.send(sent)))


async def restart(cluster: StorageCluster, topic: bytes) -> None:
    """After it nothing of the log is in memory."""
    await cluster.stop()
    await cluster.start()
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)


def reads_under_way(cluster: StorageCluster) -> int:
    assert cluster.node is not None
    return cluster.node.opened.disk_reads.unfinished


def first_offset(payload: bytes | memoryview) -> int:
    return next(iter_batches(payload)).header.base_offset


async def test_a_fetch_of_a_cold_offset_holds_up_nobody_else(cluster: StorageCluster, disk: HeldDisk) -> None:
    cold, warm = await cluster.topic("cold"), await cluster.topic("warm")
    await fill(cluster, cold)
    disk.hold_reads(str(directory(cluster, "cold")))
    waiting = [cluster.fetching(cold, offset, inline=True, max_bytes=100) for offset in (3, BATCHES // 3, BATCHES // 2)]
    await until(lambda: reads_under_way(cluster))
    async with asyncio.timeout(10):
        assert (await cluster.append(warm, batch(b"meanwhile"))).error == 0
        assert fetched(await cluster.fetching(warm, 0, inline=True))[0].inline_length
        assert (await cluster.append(cold, batch(b"to the cold one, too"), acks=1)).error == 0
    assert not any(fetch.done() for fetch in waiting)
    disk.release()
    for offset, fetch in zip((3, BATCHES // 3, BATCHES // 2), waiting, strict=True):
        assert first_offset((await fetch).payload) == offset


def close_files(cluster: StorageCluster, disk: HeldDisk) -> None:
    """Closes all files of segments but those that a writer holds."""
    files, capacity = cluster.open_files, cluster.open_files.capacity
    files.capacity = 0
    with pytest.raises(OSError, match="too many files"):
        files.open(disk, "/dev/null", "nobody")
    files.capacity = capacity


async def test_a_fetch_from_a_file_that_was_closed_waits_for_a_thread_to_open_it(cluster: StorageCluster, disk: HeldDisk) -> None:
    """A coordinator that loads a shard takes an empty answer below the high watermark for a log without records."""
    topic = await cluster.topic("cold")
    await fill(cluster, topic)
    await restart(cluster, topic)
    for _ in range(2):
        (found,) = fetched(await cluster.fetching(topic, 0, inline=True))
        assert found.error == 0
        assert found.inline_length
        close_files(cluster, disk)
        disk.evict()


async def test_a_stopping_node_calls_what_its_disk_has_not_brought_no_empty_log(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("cold")
    await fill(cluster, topic)
    await restart(cluster, topic)
    disk.hold_reads(str(directory(cluster, "cold")))
    waiting = cluster.fetching(topic, 3, inline=True)
    await until(lambda: reads_under_way(cluster))
    assert cluster.node is not None
    cluster.node.opened.fetches.close()
    for fetch in (waiting, cluster.fetching(topic, 5, inline=True)):
        (found,) = fetched(await fetch)
        assert (found.error, found.inline_length) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
    disk.release()


async def test_a_fetch_is_answered_with_what_there_is_while_one_of_its_partitions_waits_for_its_disk(
    cluster: StorageCluster, disk: HeldDisk
) -> None:
    topic = await cluster.topic("t", partitions=2)
    await fill(cluster, topic)
    await cluster.append(topic, batch(b"warm"), index=1)
    disk.hold_reads(str(directory(cluster, "t")))
    request = Fetch(8000, 1, 1 << 20, 0, tuple(_wanted(topic, index, offset) for index, offset in ((0, 7), (1, 0))))
    assert cluster.client is not None
    cold, warm = fetched(await cluster.client.call(FETCH, request, timeout_s=WAIT_S))
    assert (cold.error, cold.ranges, cold.high_watermark) == (0, (), partition_of(cluster, topic).high_watermark)
    assert warm.ranges
    disk.release()
    assert (await cluster.fetch(topic, 7)).ranges


@pytest.mark.parametrize("max_wait_ms", [0, 300])
async def test_a_fetch_that_its_disk_gave_too_few_bytes_waits_as_long_as_its_client_asked(
    cluster: StorageCluster, disk: HeldDisk, monkeypatch: pytest.MonkeyPatch, max_wait_ms: int
) -> None:
    """The time that it grants a disk is over once the disk has answered. The active segment may still grow."""
    monkeypatch.setattr(fetches, "DISK_WAIT_S", 3600.0)
    topic = await cluster.topic("few")
    await fill(cluster, topic, 10)
    disk.hold_reads(str(directory(cluster, "few")))
    began = asyncio.get_running_loop().time()
    waiting = cluster.fetching(topic, 3, max_wait_ms=max_wait_ms, min_bytes=1 << 20)
    await until(lambda: reads_under_way(cluster))
    assert not waiting.done()
    disk.release()
    async with asyncio.timeout(10):
        (few,) = fetched(await waiting)
    assert (few.error, len(few.ranges)) == (0, 1)
    assert asyncio.get_running_loop().time() - began >= max_wait_ms / 1000
    assert parked(cluster) == 0


async def test_a_fetch_whose_time_is_over_while_its_disk_hangs_is_answered_with_what_another_partition_brings(
    cluster: StorageCluster, disk: HeldDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetches, "DISK_WAIT_S", 3600.0)
    topic = await cluster.topic("two", partitions=2)
    await fill(cluster, topic, 10)
    disk.hold_reads(str(directory(cluster, "two")))
    request = Fetch(0, 1 << 20, 1 << 20, 0, tuple(_wanted(topic, index, offset) for index, offset in ((0, 3), (1, 0))))
    assert cluster.client is not None
    waiting = cluster.client.call(FETCH, request, timeout_s=WAIT_S)
    await until(lambda: reads_under_way(cluster))
    await cluster.append(topic, batch(b"warm"), index=1)
    async with asyncio.timeout(10):
        cold, warm = fetched(await waiting)
    assert (cold.error, cold.ranges) == (0, ())
    assert warm.ranges


def _wanted(topic: bytes, index: int, offset: int) -> FetchPartition:
    return FetchPartition(topic, index, offset, 1 << 20)


async def test_a_pull_of_cold_records_holds_up_no_other_partition_of_the_follower(
    cluster: StorageCluster, two: FakeFollower, disk: HeldDisk
) -> None:
    cold, warm = await replicated_topic(cluster, "cold", [1]), await replicated_topic(cluster, "warm", [1])
    await fill(cluster, cold)
    disk.hold_reads(str(directory(cluster, "cold")))
    assert await two.pull(at(cold, 5, durable=0), max_wait_ms=1) == []
    await cluster.append(warm, batch(b"warm"))
    async with asyncio.timeout(10):
        ((pulled, payload),) = await two.pull(at(warm, 0), max_wait_ms=8000)
    assert pulled.topic_id == warm
    assert payload
    waiting = asyncio.ensure_future(two.pull(max_wait_ms=int(WAIT_S * 1000)))
    disk.release()
    ((pulled, payload),) = await waiting
    assert pulled.topic_id == cold
    assert first_offset(payload) == 5


async def test_a_leader_tells_log_layouts_and_opens_files_with_the_threads_of_the_disk(
    cluster: StorageCluster, disk: HeldDisk
) -> None:
    cold = await cluster.topic("cold")
    await fill(cluster, cold)
    await restart(cluster, cold)
    warm = await cluster.topic("warm")
    disk.hold_reads(str(directory(cluster, "cold")))
    assert cluster.client is not None
    files = [segment.file.file_id for segment in partition_of(cluster, cold).log.segments]
    opening = cluster.client.call(OPEN_FILE, OpenFile(files[0]), timeout_s=WAIT_S)
    layout = cluster.client.call(LOG_LAYOUT, LogLayoutRequest(cold, 0), timeout_s=WAIT_S)
    await until(lambda: reads_under_way(cluster))
    async with asyncio.timeout(10):
        assert (await cluster.append(warm, batch(b"meanwhile"))).error == 0
    assert not opening.done()
    disk.release()
    opened = await opening
    assert unpack(OpenFileReply, opened.body).exists
    for descriptor in opened.descriptors:
        disk.close(descriptor)
    assert len(unpack(LogLayoutReply, (await layout).body).segments) == len(files)


async def test_timestamps_are_looked_up_by_the_threads_of_the_disk(cluster: StorageCluster, disk: HeldDisk) -> None:
    cold = await cluster.topic("cold")
    await fill(cluster, cold)
    await restart(cluster, cold)
    warm = await cluster.topic("warm")
    disk.hold_reads(str(directory(cluster, "cold")))
    searches = [asyncio.ensure_future(cluster.list_offset(cold, timestamp)) for timestamp in (START + 77, -3)]
    await until(lambda: reads_under_way(cluster))
    async with asyncio.timeout(10):
        assert (await cluster.append(warm, batch(b"meanwhile", timestamp=START))).error == 0
        assert (await cluster.list_offset(warm, START)).offset == 0
    assert not any(search.done() for search in searches)
    disk.release()
    assert [(await search).offset for search in searches] == [77, BATCHES - 1]


async def test_retention_reads_cold_indexes_with_the_threads_of_the_disk(cluster: StorageCluster, disk: HeldDisk) -> None:
    cold = await cluster.topic("cold", retention_ms="1000")
    await fill(cluster, cold)
    await restart(cluster, cold)
    await cluster.append(cold, batch(b"young", timestamp=SystemClock().wall_ms()))
    warm = await cluster.topic("warm")
    disk.hold_reads(str(directory(cluster, "cold")))
    checking = asyncio.ensure_future(check(cluster))
    await until(lambda: reads_under_way(cluster))
    async with asyncio.timeout(10):
        assert (await cluster.append(warm, batch(b"meanwhile"))).error == 0
    disk.release()
    await checking
    assert len(partition_of(cluster, cold).log.segments) == 1


async def test_a_disk_that_hangs_fails_its_own_partitions_only(
    cluster: StorageCluster, short_dir: Path, disk: HeldDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetches, "DISK_WAIT_S", 0.2)
    controller = await NamingController(cluster).elect(short_dir)
    await with_two_directories(cluster)
    first, second = await cluster.topic("first"), await cluster.topic("second")
    if home(cluster, second) is home(cluster, first):
        second = await cluster.topic("third")
    assert home(cluster, second) is not home(cluster, first)
    for topic in (first, second):
        await fill(cluster, topic, 50)
    disk.evict()
    disk.hold_reads(home(cluster, first).path)
    many = [cluster.fetching(first, offset) for offset in range(READS_AT_ONCE + 20)]
    for fetch in many[:4]:
        assert fetched(await fetch)[0].error == ErrorCode.KAFKA_STORAGE_ERROR
    async with asyncio.timeout(10):
        assert (await cluster.fetch(second, 20)).ranges
        assert (await cluster.list_offset(second, START + 7)).offset == 7
        assert (await cluster.append(second, batch(b"x"))).error == 0
    disk.release()
    await asyncio.gather(*many)
    assert (await cluster.fetch(first, 20)).ranges
    await controller.close()


async def test_reads_that_exceed_what_may_wait_for_a_disk_are_refused(
    cluster: StorageCluster, disk: HeldDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_reads, "WAITING_MAX", 1)
    first, second = await cluster.topic("first"), await cluster.topic("second")
    for topic in (first, second):
        await fill(cluster, topic, 10)
    disk.hold_reads()
    waiting = cluster.fetching(first, 3)
    await until(lambda: reads_under_way(cluster))
    assert (await cluster.fetch(second, 3)).error == ErrorCode.KAFKA_STORAGE_ERROR
    disk.release()
    assert fetched(await waiting)[0].ranges
    assert (await cluster.fetch(second, 3)).ranges


@pytest.mark.parametrize("suffix", [".index", ".log"])
async def test_a_cold_sector_that_cannot_be_read_is_an_error_of_its_partition(
    cluster: StorageCluster, disk: HeldDisk, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad, sound = await cluster.topic("bad"), await cluster.topic("sound")
    await fill(cluster, bad)
    disk.unreadable = suffix
    disk.evict(str(directory(cluster, "bad")))
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            assert (await cluster.fetch(bad, BATCHES // 2)).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert sum("read failed" in record.message for record in caplog.records) == 1
    assert (await cluster.append(sound, batch(b"x"))).error == 0
    disk.unreadable = ""
    assert (await cluster.fetch(bad, BATCHES // 2)).ranges


async def test_a_cold_index_that_was_cut_short_is_made_again_by_a_thread(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("cut")
    await fill(cluster, topic)
    partition = partition_of(cluster, topic)
    await until(lambda: partition.high_watermark == BATCHES)
    assert (await cluster.fetch(topic, BATCHES // 2)).ranges  # the index is mapped now
    segment = partition.log.segments[1]
    path = Path(segment.file.path).with_suffix(".index")
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(16)
    disk.evict()
    for offset in range(segment.base_offset, segment.next_offset, 40):
        reply = await cluster.fetching(topic, offset, inline=True, max_bytes=100)
        assert first_offset(reply.payload) == offset
    assert path.stat().st_size == size


async def test_the_first_appends_after_a_restart_read_nothing(cluster: StorageCluster, disk: HeldDisk) -> None:
    """Not even the age of the active segment, or the last entries of its indexes. A start has seen the names of all files."""
    topic = await cluster.topic("cold")
    await fill(cluster, topic)
    await restart(cluster, topic)
    partition = partition_of(cluster, topic)
    segments = len(partition.log.segments)
    disk.evict(str(directory(cluster, "cold")), names=False)
    await fill(cluster, topic)
    assert len(partition.log.segments) > segments
