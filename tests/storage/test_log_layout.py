"""A leader tells where the committed records of a partition stand."""

import os
import struct

import pytest

from libs.commitlog.model.config import LogConfig
from libs.rpc.contracts.log_layout import LOG_LAYOUT, UNKNOWN_TIMESTAMP, LogLayoutReply, LogLayoutRequest
from libs.rpc.contracts.storage import OPEN_FILE, OpenFile
from libs.rpc.messages.schema import unpack
from libs.wire.errors import ErrorCode
from services.storage.fetch import log_layout
from tests.storage.cluster import WAIT_S, StorageCluster, batch, partition_of
from tests.storage.held_disk import HeldDisk

START = 1_700_000_000_000


async def layout_of(cluster: StorageCluster, topic: bytes, partition: int = 0) -> LogLayoutReply:
    assert cluster.client is not None
    response = await cluster.client.call(LOG_LAYOUT, LogLayoutRequest(topic, partition), timeout_s=WAIT_S)
    return unpack(LogLayoutReply, response.body)


async def content(cluster: StorageCluster, file_id: int) -> bytes:
    assert cluster.client is not None
    response = await cluster.client.call(OPEN_FILE, OpenFile(file_id), timeout_s=WAIT_S)
    (descriptor,) = response.descriptors
    try:
        return os.pread(descriptor, 1 << 20, 0)
    finally:
        os.close(descriptor)


async def filled(cluster: StorageCluster) -> bytes:
    """In several small segments."""
    topic = await cluster.topic("lines", epoch=3)
    partition_of(cluster, topic).log.config = LogConfig(segment_bytes=2000, index_interval_bytes=100)
    for number in range(30):
        await cluster.append(topic, batch(bytes(200), b"x", timestamp=START + 10 * number))
    return topic


async def test_it_names_each_segment_with_its_files(cluster: StorageCluster) -> None:
    topic = await filled(cluster)
    layout = await layout_of(cluster, topic)
    assert (layout.error, layout.leader_epoch, layout.high_watermark, layout.last_stable_offset, layout.log_start_offset) == (
        0,
        3,
        60,
        60,
        0,
    )
    log = partition_of(cluster, topic).log
    assert [(row.base_offset, row.readable_to) for row in layout.segments] == [(s.base_offset, s.size) for s in log.segments]
    assert len(layout.segments) > 2
    assert sum(row.offset_entries for row in layout.segments) > 2
    for row, segment in zip(layout.segments, log.segments, strict=True):
        assert row.max_timestamp == segment.max_timestamp
        assert (row.offset_entries, row.time_entries) == (segment.offset_index.count, segment.time_index.count)
        offsets, times = await content(cluster, row.offset_index), await content(cluster, row.time_index)
        for slot in range(row.offset_entries):
            assert struct.unpack_from(">ii", offsets, 8 * slot) == segment.offset_index.entry(slot)
        for slot in range(row.time_entries):
            assert struct.unpack_from(">qi", times, 12 * slot) == segment.time_index.entry(slot)
        assert len(await content(cluster, row.file_id)) == segment.size
    assert (await layout_of(cluster, topic)) == layout, "files keep their numbers"


async def test_uncommitted_records_are_left_out(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("lines")
    await cluster.append(topic, batch(b"a"))
    size = partition_of(cluster, topic).log.active.size
    disk.hold()
    await cluster.append(topic, batch(b"b"), acks=1)
    layout = await layout_of(cluster, topic)
    assert (layout.high_watermark, [row.readable_to for row in layout.segments]) == (1, [size])
    disk.release()


async def test_a_leader_that_has_not_committed_what_it_found_tells_nothing(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("behind")
    await cluster.append(topic, batch(b"a"))
    disk.hold()
    await cluster.append(topic, batch(b"b"), acks=1)
    await cluster.state(topic, epoch=1)
    while (layout := await layout_of(cluster, topic)).leader_epoch == 0:
        pass
    assert (layout.error, layout.segments) == (ErrorCode.OFFSET_NOT_AVAILABLE, ())
    disk.release()


async def test_an_index_that_nobody_used_since_the_start_is_not_opened_for_it(cluster: StorageCluster) -> None:
    topic = await filled(cluster)
    await cluster.stop()
    await cluster.start()
    await cluster.state(topic, epoch=4)
    await cluster.leads(topic, epoch=4)
    first = (await layout_of(cluster, topic)).segments[0]
    assert (first.max_timestamp, first.offset_index, first.time_index) == (UNKNOWN_TIMESTAMP, 0, 0)
    assert (await cluster.list_offset(topic, START)).offset == 0
    first = (await layout_of(cluster, topic)).segments[0]
    assert first.offset_index
    assert first.time_index
    assert first.max_timestamp >= START


async def test_a_segment_that_was_only_fetched_from_since_the_start_names_its_offset_index(cluster: StorageCluster) -> None:
    topic = await filled(cluster)
    await cluster.stop()
    await cluster.start()
    await cluster.state(topic, epoch=4)
    await cluster.leads(topic, epoch=4)
    await cluster.fetch(topic, offset=3)
    first = (await layout_of(cluster, topic)).segments[0]
    assert first.offset_index
    assert first.offset_entries == partition_of(cluster, topic).log.segments[0].offset_index.count
    assert (first.max_timestamp, first.time_index) == (UNKNOWN_TIMESTAMP, 0)


async def test_a_log_of_too_many_segments_has_no_layout(cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_layout, "SEGMENTS_MAX", 2)
    topic = await filled(cluster)
    layout = await layout_of(cluster, topic)
    assert (layout.error, layout.high_watermark, layout.segments) == (0, 60, ())


async def test_it_tells_nothing_of_what_it_does_not_lead(cluster: StorageCluster) -> None:
    topic = await cluster.topic("lines")
    assert (await layout_of(cluster, b"\xff" * 16)).error == ErrorCode.UNKNOWN_TOPIC_ID
    assert (await layout_of(cluster, topic, 7)).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
