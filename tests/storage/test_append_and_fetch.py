"""Appended records can be fetched: as file ranges, through a passed descriptor, or inline."""

import asyncio
import fcntl
import os
import threading
from typing import Any

import pytest

from libs.rpc.contracts.storage import OPEN_FILE, OpenFile, OpenFileReply
from libs.rpc.files import disk_readers
from libs.rpc.messages.schema import unpack
from libs.rpc.transport import socket_stream
from libs.runtime.admin import NotShown
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import BatchHeader
from services.storage.partition import partition_table
from tests.storage.cluster import WAIT_S, StorageCluster, appended, batch, directory, fetched
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until


async def test_a_page_of_partitions_has_a_bound_and_says_how_many_it_leaves_out(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        await cluster.topic(f"lines{number}")
    assert cluster.node is not None
    partitions = cluster.node.partitions
    assert list(partitions.debug()) == ["lines0-0", "lines1-0", "lines2-0"]
    monkeypatch.setattr(partition_table, "SHOWN_MAX", 2)
    shown = partitions.debug()
    assert list(shown) == ["lines0-0", "lines1-0", "not_shown"]
    assert shown["not_shown"] == 1


async def test_one_partition_can_be_looked_up_by_its_name(cluster: StorageCluster) -> None:
    topic = await cluster.topic("lines", epoch=7)
    await cluster.append(topic, batch(b"one", b"two"))
    assert cluster.node is not None
    shown: Any = await cluster.node.partitions.look_up("lines-0")
    assert (shown["topic_id"], shown["leading"], shown["leader_epoch"], shown["log_end"]) == (topic.hex(), True, 7, 2)
    assert shown["isr"] == [cluster.node.partitions.node_id]
    assert await cluster.node.partitions.look_up("lines") == NotShown(404, {"error": "no replica of lines is open here"})
    long = "lines-" + 5000 * "1"
    assert await cluster.node.partitions.look_up(long) == NotShown(404, {"error": f"no replica of {long} is open here"})
    assert await cluster.node.partitions.look_up("lines-1") == NotShown(404, {"error": "no replica of lines-1 is open here"})


async def test_appended_bytes_come_back_through_a_passed_descriptor(cluster: StorageCluster) -> None:
    topic = await cluster.topic("lines", epoch=7)
    first, second = batch(b"one", b"two"), batch(b"three")
    assert (await cluster.append(topic, first)).base_offset == 0
    assert (await cluster.append(topic, second)).base_offset == 2
    answer = await cluster.fetch(topic, 0)
    assert (answer.error, answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (0, 3, 3, 0)
    (place,) = answer.ranges
    assert cluster.client is not None
    opened = await cluster.client.call(OPEN_FILE, OpenFile(place.file_id), timeout_s=WAIT_S)
    assert unpack(OpenFileReply, opened.body).exists
    (descriptor,) = opened.descriptors
    try:
        stored = os.pread(descriptor, place.length, place.position)
        assert fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    finally:
        os.close(descriptor)
    assert len(stored) == len(first) + len(second)
    header = BatchHeader.at(stored, len(first))
    assert (header.base_offset, header.leader_epoch) == (2, 7)
    # Offsets and epoch are the leader's, all the rest is as it was sent.
    assert stored[16 : len(first)] == first[16:]
    assert stored[len(first) + 16 :] == second[16:]


async def test_the_same_bytes_come_inline_for_a_caller_on_another_host(cluster: StorageCluster) -> None:
    topic = await cluster.topic("lines")
    sent = batch(b"one", b"two")
    await cluster.append(topic, sent)
    response = await cluster.fetching(topic, 0, inline=True)
    (answer,) = fetched(response)
    assert (answer.ranges, answer.inline_length) == ((), len(sent))
    assert bytes(response.payload)[16:] == sent[16:]


async def test_an_inline_fetch_from_a_disk_that_hangs_delays_no_other_answer_of_its_connection(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = await cluster.topic("slow"), await cluster.topic("quick")
    for topic in (slow, quick):
        await cluster.append(topic, batch(b"one"))
    cold = (directory(cluster, "slow") / "00000000000000000000.log").stat().st_ino
    reads, works_again = threading.Event(), threading.Event()

    def warm(fd: int, position: int, length: int) -> None:
        reads.set()
        works_again.wait(WAIT_S)

    monkeypatch.setattr(socket_stream, "is_cached", lambda fd, *_: works_again.is_set() or os.fstat(fd).st_ino != cold)
    monkeypatch.setattr(disk_readers, "warm", warm)
    try:
        held = cluster.fetching(slow, 0, inline=True)
        await until(reads.is_set)
        async with asyncio.timeout(10):
            assert (await cluster.append(quick, batch(b"two"))).error == 0
            assert fetched(await cluster.fetching(quick, 0, inline=True))[0].inline_length
        assert not held.done()
    finally:
        works_again.set()
    assert fetched(await held)[0].inline_length


async def test_a_file_that_is_not_there_is_said_to_be_gone(cluster: StorageCluster) -> None:
    assert cluster.client is not None
    opened = await cluster.client.call(OPEN_FILE, OpenFile(999), timeout_s=WAIT_S)
    assert not unpack(OpenFileReply, opened.body).exists
    assert opened.descriptors == ()


async def test_one_request_may_carry_many_partitions_and_each_answers_for_itself(cluster: StorageCluster) -> None:
    topic = await cluster.topic("many", partitions=3)
    unknown = b"\xff" * 16
    bad = bytearray(batch(b"x"))
    bad[-1] ^= 1
    reply = await cluster.send(
        [
            (topic, 0, batch(b"a")),
            (topic, 9, batch(b"b")),
            (unknown, 0, batch(b"c")),
            (topic, 2, bytes(bad)),
            (topic, 0, batch(b"d", b"e")),
        ]
    )
    assert [part.error for part in appended(reply)] == [0, 3, 100, 2, 0]
    assert [part.base_offset for part in appended(reply)] == [0, -1, -1, -1, 1]


async def test_answers_keep_the_field_order_of_the_contract(cluster: StorageCluster) -> None:
    topic = await cluster.topic("shape", epoch=3)
    stored = await cluster.append(topic, batch(b"x"), epoch=3)
    assert (stored.error, stored.base_offset, stored.log_append_time_ms, stored.log_start_offset) == (0, 0, -1, 0)
    assert (stored.message, stored.record_errors, stored.leader, stored.leader_epoch) == (None, (), -1, -1)
    refused = await cluster.append(topic, batch(b"x"), epoch=4, timeout_ms=20)
    assert (refused.error, refused.base_offset, refused.leader, refused.leader_epoch) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        -1,
        -1,
        -1,
    )
    missing = await cluster.fetch(topic, 0, current_leader_epoch=2)
    assert (missing.error, missing.leader, missing.leader_epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 1, 3)


async def test_a_topic_with_log_append_time_stamps_the_batch_and_says_so(cluster: StorageCluster) -> None:
    topic = await cluster.topic("stamped", message_timestamp_type="LogAppendTime")
    stored = await cluster.append(topic, batch(b"x", timestamp=5))
    assert stored.log_append_time_ms > 1_600_000_000_000
    response = await cluster.fetching(topic, 0, inline=True)
    header = BatchHeader.at(response.payload)
    assert header.is_log_append_time
    assert header.max_timestamp == stored.log_append_time_ms
    assert (await cluster.list_offset(topic, stored.log_append_time_ms)).offset == 0


async def test_a_replicated_topic_commits_without_waiting_for_the_disk(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("fast", durability="replicated")
    disk.hold()
    assert (await cluster.append(topic, batch(b"x"))).error == 0
    assert (await cluster.fetch(topic, 0)).high_watermark == 1
    disk.release()


async def test_offsets_are_listed_as_kafka_lists_them(cluster: StorageCluster) -> None:
    topic = await cluster.topic("listed", epoch=4)
    await cluster.append(topic, batch(b"a", b"b", timestamp=1000))
    await cluster.append(topic, batch(b"c", timestamp=5000))
    await cluster.append(topic, batch(b"d", timestamp=3000))
    assert [
        (listed.offset, listed.timestamp, listed.leader_epoch)
        for listed in [await cluster.list_offset(topic, ts) for ts in (-1, -2, -4, -5, -6)]
    ] == [
        (4, -1, 4),
        (0, -1, 4),
        (0, -1, 4),
        (-1, -1, -1),
        (-1, -1, -1),
    ]
    latest = await cluster.list_offset(topic, -3)
    assert (latest.offset, latest.timestamp) == (2, 5000)
    answer = await cluster.list_offset(topic, 1001)
    assert (answer.offset, answer.timestamp) == (1, 1001)
    assert (await cluster.list_offset(topic, 5001)).offset == -1
    assert (await cluster.list_offset(topic, -7)).error == ErrorCode.UNSUPPORTED_VERSION
    assert (await cluster.list_offset(topic, -1, epoch=3)).error == ErrorCode.FENCED_LEADER_EPOCH
    assert (await cluster.list_offset(topic, -1, epoch=5)).error == ErrorCode.UNKNOWN_LEADER_EPOCH
