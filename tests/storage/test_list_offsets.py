"""From a timestamp to an offset, at a storage node."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from libs.commitlog.model.config import LogConfig
from libs.commitlog.partition_log.log import Log
from libs.commitlog.segments.timestamp_search import HeaderWalk
from libs.rpc.contracts.storage import LIST_OFFSETS, ListedOffset, ListOffsets, ListOffsetsPartition, ListOffsetsReply
from libs.rpc.messages.schema import unpack
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import Record, build_batch
from services.storage.threads.offload import ThreadOffload
from tests.storage.cluster import WAIT_S, StorageCluster, batch, directory, listed, partition_of
from tests.storage.fake_leader import FakeLeader, LeaderLog
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until

START = 1_700_000_000_000


async def test_a_slow_disk_under_a_timestamp_lookup_holds_up_nobody_else(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("slow")
    await cluster.append(topic, batch(b"a", b"b", b"c", timestamp=START))
    assert cluster.client is not None
    for timestamp, offset in ((START + 1, 1), (-3, 2)):
        disk.hold_reads()
        begun = disk.reads_begun
        request = ListOffsets(
            0, (ListOffsetsPartition(topic, 0, timestamp), ListOffsetsPartition(topic, 0, -1), ListOffsetsPartition(topic, 9, 0))
        )
        slow = cluster.client.call(LIST_OFFSETS, request, timeout_s=WAIT_S)
        await until(lambda begun=begun: disk.reads_begun > begun)  # type: ignore[misc]
        assert (await cluster.list_offset(topic, -1)).error == 0
        assert (await cluster.append(topic, batch(b"meanwhile", timestamp=0), acks=1)).error == 0
        assert not slow.done()
        disk.release()
        found, latest, unknown = unpack(ListOffsetsReply, (await slow).body).partitions
        assert found == ListedOffset(0, offset, START + offset, 0)
        assert latest.error == 0
        assert unknown.error


async def test_an_end_that_was_found_in_an_earlier_leadership_is_not_told(cluster: StorageCluster, disk: HeldDisk) -> None:
    """While another partition's lookup waited for its disk, another node may have led, and acknowledged records."""
    cold, other = await cluster.topic("cold"), await cluster.topic("other")
    await cluster.append(cold, batch(b"a", timestamp=START))
    assert cluster.client is not None
    disk.hold_reads()
    request = ListOffsets(
        0, tuple([ListOffsetsPartition(*wanted) for wanted in ((cold, 0, START), (other, 0, -1), (other, 0, -2))])
    )
    begun = disk.reads_begun
    listing = cluster.client.call(LIST_OFFSETS, request, timeout_s=WAIT_S)
    await until(lambda: disk.reads_begun > begun)
    await cluster.state(other, epoch=2)
    await cluster.leads(other, epoch=2)
    disk.release()
    found, latest, earliest = unpack(ListOffsetsReply, (await listing).body).partitions
    assert (found.error, found.offset) == (0, 0)
    assert latest.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (earliest.error, earliest.offset) == (0, 0)


async def test_a_leader_that_has_not_committed_what_it_found_tells_no_end_that_may_go_back(
    cluster: StorageCluster, disk: HeldDisk
) -> None:
    topic = await cluster.topic("behind")
    await cluster.append(topic, batch(b"a", timestamp=START))
    disk.hold()
    await cluster.append(topic, batch(b"b", timestamp=START + 10), acks=1)
    assert await cluster.list_offset(topic, -1) == ListedOffset(0, 1, -1, 0)
    assert await cluster.list_offset(topic, START + 10) == ListedOffset(0)
    await cluster.state(topic, epoch=1)
    await until(lambda: cluster.node is not None and cluster.node.partitions.by_key[topic, 0].leader_epoch == 1)
    for depends_on_the_end in (-1, -3, START + 10):
        assert (await cluster.list_offset(topic, depends_on_the_end)).error == ErrorCode.OFFSET_NOT_AVAILABLE
    assert (await cluster.delete_records(topic, 2)).error == ErrorCode.OFFSET_NOT_AVAILABLE
    assert (await cluster.delete_records(topic, 3)).error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await cluster.list_offset(topic, -2)).offset == 0
    assert (await cluster.list_offset(topic, START)).offset == 0
    assert (await cluster.list_offset(topic, START + 11)) == ListedOffset(0)
    disk.release()

    async def caught_up() -> bool:
        return await cluster.list_offset(topic, -1) == ListedOffset(0, 2, -1, 1)

    await until(caught_up)
    assert (await cluster.list_offset(topic, -3)).offset == 1


async def test_a_record_that_is_committed_while_a_search_waits_for_the_disk_is_not_denied(
    cluster: StorageCluster, disk: HeldDisk
) -> None:
    """The search began when the high watermark had not reached the epoch's start. At its end that says nothing any more."""
    topic = await cluster.topic("catching-up")
    disk.hold()
    await cluster.append(topic, batch(b"a", b"b", timestamp=START), acks=1)
    await cluster.state(topic, epoch=1)
    await until(lambda: cluster.node is not None and cluster.node.partitions.by_key[topic, 0].leader_epoch == 1)
    disk.hold_reads()
    begun = disk.reads_begun
    assert cluster.client is not None
    request = ListOffsets(0, (ListOffsetsPartition(topic, 0, START + 1),))
    search = cluster.client.call(LIST_OFFSETS, request, timeout_s=WAIT_S)
    await until(lambda: disk.reads_begun > begun)
    disk.release_syncs()

    async def is_committed() -> bool:
        return await cluster.list_offset(topic, -1) == ListedOffset(0, 2, -1, 1)

    await until(is_committed)
    disk.release()
    (found,) = unpack(ListOffsetsReply, (await search).body).partitions
    assert found.error == ErrorCode.OFFSET_NOT_AVAILABLE
    assert await cluster.list_offset(topic, START + 1) == ListedOffset(0, 1, START + 1, 0)


async def test_a_leader_that_has_not_committed_what_it_found_tells_no_reader_that_this_is_the_end(
    cluster: StorageCluster, disk: HeldDisk
) -> None:
    """An empty answer with a high watermark where the reader is means to many clients that there is no more."""
    topic = await cluster.topic("behind")
    await cluster.append(topic, batch(b"a", timestamp=START))
    disk.hold()
    await cluster.append(topic, batch(b"b", timestamp=START + 10), acks=1)
    assert (await cluster.fetch(topic, 1)).error == 0
    await cluster.state(topic, epoch=1)
    await until(lambda: cluster.node is not None and cluster.node.partitions.by_key[topic, 0].leader_epoch == 1)
    for isolation in (0, 1):
        assert (await cluster.fetch(topic, 1, isolation=isolation)).error == ErrorCode.OFFSET_NOT_AVAILABLE
        assert (await cluster.fetch(topic, 0, isolation=isolation)).error == 0
    waits = asyncio.ensure_future(cluster.fetch(topic, 1, max_wait_ms=int(WAIT_S * 1000)))
    disk.release()
    found = await waits
    assert (found.error, found.high_watermark) == (0, 2)


async def test_a_lookup_in_the_page_cache_takes_no_thread(cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    submit, looked_up = ThreadOffload.submit, []

    def counting(offload: ThreadOffload, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        looked_up.extend([work] * (isinstance(work, HeaderWalk) or "batch_reader" in getattr(work, "__qualname__", "")))
        return submit(offload, work)

    monkeypatch.setattr(ThreadOffload, "submit", counting)
    topic = await cluster.topic("cached")
    for number in range(20):
        await cluster.append(topic, batch(b"a", b"b", b"c", timestamp=START + 10 * number))
    for number in range(20):
        assert await cluster.list_offset(topic, START + 10 * number + 1) == ListedOffset(
            0, 3 * number + 1, START + 10 * number + 1, 0
        )
    assert looked_up == []
    for codec in range(5):
        compressed = build_batch([Record(None, b"x", START + 1000 + 200 * codec + number) for number in range(150)], codec=codec)
        await cluster.append(topic, bytes(compressed))
        assert (await cluster.list_offset(topic, START + 1000 + 200 * codec + 120)).offset == 60 + 150 * codec + 120
    assert looked_up == []
    assert (await cluster.list_offset(topic, START + 1000 + 149)).offset == 60 + 149
    assert len(looked_up) == 1


@contextmanager
def held_cuts(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Each truncation waits in its thread until the end. The event: one has begun."""
    begun, go_on, cut = threading.Event(), threading.Event(), Log.truncate_to

    def slowly(log: Log, offset: int) -> int:
        begun.set()
        assert go_on.wait(WAIT_S)
        return cut(log, offset)

    with monkeypatch.context() as patched:
        patched.setattr(Log, "truncate_to", slowly)
        try:
            yield begun
        finally:
            go_on.set()


async def log_of_several_segments(cluster: StorageCluster, name: str, *, codec: int = 0) -> bytes:
    topic = await cluster.topic(name)
    partition_of(cluster, topic).log.config = LogConfig(segment_bytes=5000, index_interval_bytes=0)
    for number in range(200):
        records = [Record(None, b"%d" % number, START + number)]
        assert (await cluster.append(topic, bytes(build_batch(records, codec=codec)), acks=1)).error == 0
    partition = partition_of(cluster, topic)
    await until(lambda: partition.high_watermark == 200)
    assert len(partition.log.segments) > 2
    return topic


@pytest.mark.parametrize("timestamp", [START + 150, -3])
@pytest.mark.parametrize("unreadable", ["", "index", ".log"])
async def test_a_search_ends_where_the_node_is_deposed_and_cuts_its_log(
    cluster: StorageCluster,
    disk: HeldDisk,
    leader: FakeLeader,
    monkeypatch: pytest.MonkeyPatch,
    timestamp: int,
    unreadable: str,
) -> None:
    """On the loop it would read the mapping of an index that a thread shrinks, and what is half cut looks damaged."""
    topic = await log_of_several_segments(cluster, "deposed")
    partition = partition_of(cluster, topic)
    disk.hold_reads(str(directory(cluster, "deposed")))
    begun = disk.reads_begun
    search = cluster.listing(topic, timestamp)
    await until(lambda: disk.reads_begun > begun)
    with held_cuts(monkeypatch) as cut_begun:
        await leader.leads(topic, epoch=1, log=LeaderLog(1))
        await until(cut_begun.is_set)
        asked, is_cached = [], disk.is_cached

        def noted(fd: int, position: int, length: int) -> bool:
            asked.append(os.readlink(f"/proc/self/fd/{fd}"))
            return is_cached(fd, position, length)

        monkeypatch.setattr(disk, "is_cached", noted)
        disk.unreadable = unreadable
        disk.release()
        assert listed(await search) == ListedOffset(int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert not [path for path in asked if path.endswith("index")]
    disk.unreadable = ""
    await until(lambda: partition.log.log_end_offset == 0)
    assert not partition.failed_reads.damaged


async def test_a_search_that_meets_damage_while_the_node_leads_reports_it(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await log_of_several_segments(cluster, "damaged")
    disk.unreadable = ".log"
    disk.evict(str(directory(cluster, "damaged")))
    assert (await cluster.list_offset(topic, START + 150)).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert partition_of(cluster, topic).failed_reads.damaged
