"""Lookups by timestamp that need a child process: their turns, their limits, and their end when nobody waits for them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.commitlog.model.config import LogConfig
from libs.commitlog.segments.timestamp_search import BATCHES_MAX
from libs.rpc.contracts.storage import LIST_OFFSETS, ListedOffset, ListOffsets, ListOffsetsPartition, ListOffsetsReply
from libs.rpc.messages.schema import unpack
from libs.runtime.children import ChildProcesses
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batch_layout import Codec
from libs.wire.record_batches.batches import set_max_timestamp
from libs.wire.record_batches.records import Record, build_batch
from services.storage.core.fetch.lookup_turns import LookupTurns
from tests.storage.cluster import WAIT_S, StorageCluster, listed, partition_of
from tests.storage.fake_leader import FakeLeader, LeaderLog
from tests.storage.held_children import HeldChildren
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until
from tests.wire.time_bounds import out_of_bounds

START = 1_700_000_000_000
RECORDS = 200
LAST = START + RECORDS - 1


@pytest.fixture
def children() -> HeldChildren:
    return HeldChildren()


@pytest.fixture
async def cluster(tmp_path: Path, short_dir: Path, disk: HeldDisk, children: HeldChildren) -> AsyncIterator[StorageCluster]:
    cluster = StorageCluster(tmp_path, short_dir, disk)
    cluster.children = lambda name, count, nice: children
    try:
        await cluster.start()
        yield cluster
    finally:
        children.release()
        disk.release()
        await cluster.stop()
        await cluster.store.close()


def many(start: int = START) -> bytes:
    """A batch whose last record takes a child process to find."""
    return bytes(build_batch([Record(None, b"x", start + number) for number in range(RECORDS)], codec=4))


def lying(claimed: int) -> bytes:
    """A batch whose header claims a later time than any of its records has."""
    batch = build_batch([Record(None, b"x", START - 1)], codec=4)
    set_max_timestamp(memoryview(batch), claimed)
    return bytes(batch)


def turns(cluster: StorageCluster) -> "LookupTurns[asyncio.Future[None]]":
    assert cluster.node is not None
    return cluster.node.opened.lookup_steps.turns


async def topic_with(cluster: StorageCluster, name: str, *batches: bytes) -> bytes:
    topic = await cluster.topic(name)
    for each in batches:
        assert (await cluster.append(topic, each)).error == 0
    return topic


async def test_a_child_process_walks_through_what_is_large(cluster: StorageCluster) -> None:
    processes = ChildProcesses("test", 1)
    await cluster.stop()
    cluster.children = lambda name, count, nice: processes
    await cluster.start()
    topic = await topic_with(cluster, "t", many(), many(START + 1000))
    assert await cluster.list_offset(topic, LAST) == ListedOffset(0, RECORDS - 1, LAST, 0)
    assert await cluster.list_offset(topic, LAST + 1000) == ListedOffset(0, 2 * RECORDS - 1, LAST + 1000, 0)
    assert await cluster.list_offset(topic, -3) == ListedOffset(0, 2 * RECORDS - 1, LAST + 1000, 0)
    assert await cluster.list_offset(topic, LAST + 1001) == ListedOffset(0)


async def test_lookups_of_one_disk_have_turns_and_hold_up_nobody_else(cluster: StorageCluster, children: HeldChildren) -> None:
    first, second = await topic_with(cluster, "first", many()), await topic_with(cluster, "second", many())
    asked = [cluster.listing(topic, LAST) for topic in (first, first, first, second)]
    await until(lambda: turns(cluster).waiting == 3 and len(children.jobs) == 1)
    assert (await cluster.append(second, many(START + 1000))).error == 0
    assert (await cluster.list_offset(second, -1)).offset == 2 * RECORDS
    children.jobs[0].do()
    await until(lambda: len(children.jobs) == 2)
    children.jobs[1].do()
    await until(lambda: len(children.jobs) == 3 and asked[1].done())
    children.jobs[2].do()
    assert listed(await asked[3]).offset == RECORDS - 1, "the other partition's, before the third of the first"
    assert not asked[2].done()
    children.release()
    assert [listed(await response).offset for response in asked] == [RECORDS - 1] * 4


async def test_a_caller_that_goes_away_ends_its_lookups(cluster: StorageCluster, children: HeldChildren) -> None:
    """The one that a child walks for, the ones that wait for their turn, and those behind them in the same request."""
    topic = await topic_with(cluster, "t", many())
    leaving = await cluster.connect()
    wanted = tuple([ListOffsetsPartition(topic, 0, LAST)] * 3)
    asked = [leaving.call(LIST_OFFSETS, ListOffsets(0, wanted), timeout_s=WAIT_S) for _ in range(3)]
    await until(lambda: turns(cluster).waiting == 2 and children.jobs)
    stays = cluster.listing(topic, LAST - 1)
    await until(lambda: turns(cluster).waiting == 3)
    asked[1].cancel()
    await until(lambda: turns(cluster).waiting == 2)
    await leaving.close()
    await until(lambda: children.jobs[0].future.cancelled())
    await until(lambda: len(children.jobs) == 2)
    assert turns(cluster).waiting == 0
    children.release()
    assert listed(await stays).offset == RECORDS - 2
    assert len(children.jobs) == 2
    await until(lambda: turns(cluster).under_way == 0)
    for response in (asked[0], asked[2]):
        with pytest.raises(Exception, match="closed"):
            await response


async def test_a_lookup_that_is_cancelled_while_a_disk_hangs_gives_its_turn_on_when_the_disk_answers(
    cluster: StorageCluster, children: HeldChildren, disk: HeldDisk
) -> None:
    children.release()
    topic = await topic_with(cluster, "t", many())
    disk.hold_reads()
    begun = disk.reads_begun
    hangs = cluster.listing(topic, LAST)
    await until(lambda: disk.reads_begun > begun)
    waits = cluster.listing(topic, LAST)
    hangs.cancel()
    assert (await cluster.list_offset(topic, -1)).offset == RECORDS
    disk.release()
    assert listed(await waits).offset == RECORDS - 1
    await until(lambda: turns(cluster).under_way == 0)


async def test_beyond_the_bound_lookups_are_refused_for_now(cluster: StorageCluster, children: HeldChildren) -> None:
    topic = await topic_with(cluster, "t", many())
    assert cluster.node is not None
    cluster.node.opened.lookup_steps.turns = LookupTurns(waiting_max=2)
    asked = [cluster.listing(topic, LAST) for _ in range(3)]
    await until(lambda: turns(cluster).waiting == 2)
    assert (await cluster.list_offset(topic, LAST)).error == ErrorCode.REQUEST_TIMED_OUT
    assert (await cluster.list_offset(topic, START)).offset == 0, "what needs no child is answered"
    children.release()
    assert [listed(await response).offset for response in asked] == [RECORDS - 1] * 3
    assert (await cluster.list_offset(topic, LAST)).offset == RECORDS - 1


async def test_one_request_for_many_partitions_takes_no_turn_of_the_loop_for_all_of_them(cluster: StorageCluster) -> None:
    topic = await topic_with(cluster, "t", many())
    assert cluster.client is not None
    wanted = tuple([ListOffsetsPartition(topic, 0, START + number % 100) for number in range(1000)])
    asked = cluster.client.call(LIST_OFFSETS, ListOffsets(0, wanted), timeout_s=WAIT_S)
    rounds = 0
    while not asked.done():
        await asyncio.sleep(0)
        rounds += 1
    assert [answer.offset for answer in unpack(ListOffsetsReply, (await asked).body).partitions] == [
        number % 100 for number in range(1000)
    ]
    assert rounds > 900


async def test_partitions_are_answered_in_time_beside_one_that_takes_too_long(
    cluster: StorageCluster, children: HeldChildren
) -> None:
    """The caller drops an answer that comes after its deadline. So what was found is told before it."""
    slow, quick = await topic_with(cluster, "slow", many()), await topic_with(cluster, "quick", many())
    assert cluster.client is not None
    many_quick = [ListOffsetsPartition(quick, 0, START + number) for number in range(40)]
    wanted = (
        ListOffsetsPartition(slow, 0, LAST),
        *many_quick,
        ListOffsetsPartition(slow, 0, LAST),
        ListOffsetsPartition(quick, 0, -1),
    )
    response = await cluster.client.call(LIST_OFFSETS, ListOffsets(0, wanted), timeout_s=2)
    first, *found, last, end = unpack(ListOffsetsReply, response.body).partitions
    assert (first.error, last.error, end.offset) == (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT, RECORDS)
    assert [each.offset for each in found] == list(range(40))
    await until(lambda: turns(cluster).under_way == 0)
    assert [job.future.cancelled() for job in children.jobs] == [True], "nobody waits for the child"


async def test_headers_that_lie_cost_a_lookup_a_bounded_number_of_openings(
    cluster: StorageCluster, children: HeldChildren
) -> None:
    """The answer is then the first offset that was not looked at, so a reader from there misses nothing."""
    children.release()
    claimed = START + 10_000
    topic = await topic_with(cluster, "t", *[lying(claimed)] * (BATCHES_MAX + 10), many(), lying(claimed))
    found = await cluster.list_offset(topic, LAST)
    assert len(children.jobs) == BATCHES_MAX
    assert found == ListedOffset(0, BATCHES_MAX, claimed, -1)
    few = await topic_with(cluster, "few", *[lying(claimed)] * 3, many(), lying(claimed))
    assert await cluster.list_offset(few, LAST) == ListedOffset(0, 3 + RECORDS - 1, LAST, 0)
    assert await cluster.list_offset(few, LAST + 1) == ListedOffset(0)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
async def test_a_record_whose_time_is_outside_of_int64_leaves_lookups_answered(
    cluster: StorageCluster, children: HeldChildren, codec: Codec
) -> None:
    children.release()
    topic = await cluster.topic("t", record_validation="header")
    for batch in (many(START - 1000), out_of_bounds(START - 500, (1 << 63) - 1, codec, base_offset=0), many(START + 1000)):
        assert (await cluster.append(topic, batch)).error == 0
    assert await cluster.list_offset(topic, START - 500) == ListedOffset(0, RECORDS, START - 500, 0)
    for wanted in (START - 499, START):
        assert await cluster.list_offset(topic, wanted) == ListedOffset(0, RECORDS, START, 0)
    assert await cluster.list_offset(topic, -3) == ListedOffset(0, 2 * RECORDS + 2, LAST + 1000, 0)


async def test_a_batch_that_kills_its_child_is_answered_by_its_first_offset(
    cluster: StorageCluster, children: HeldChildren
) -> None:
    topic = await topic_with(cluster, "t", many(), many(START + 1000))
    asked = cluster.listing(topic, LAST + 1000)
    await until(lambda: children.jobs)
    children.jobs[0].die()
    assert listed(await asked) == ListedOffset(0, RECORDS, LAST + 1000, 0)
    assert len(children.jobs) == 1


async def test_a_batch_that_is_cut_off_before_it_is_opened_is_no_damage(
    cluster: StorageCluster, children: HeldChildren, leader: FakeLeader
) -> None:
    topic = await cluster.topic("opened")
    partition_of(cluster, topic).log.config = LogConfig(segment_bytes=5000, index_interval_bytes=0)
    for number in range(20):
        assert (await cluster.append(topic, many(START + 1000 * number))).error == 0
    partition = partition_of(cluster, topic)
    assert len(partition.log.segments) > 2
    search = cluster.listing(topic, LAST + 4000)
    await until(lambda: children.jobs)
    end = 2 * RECORDS
    await leader.leads(topic, epoch=1, log=LeaderLog(1, end=end, high_watermark=end, epochs=[(0, 0), (1, end)]))
    await until(lambda: partition.log.log_end_offset == end)
    children.release()
    assert listed(await search) == ListedOffset(int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert not partition.failed_reads.damaged
