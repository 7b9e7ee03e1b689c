"""A running node deletes what retention says, and neither crash nor clock makes it delete more, or bring back anything."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides
from libs.commitlog.files.filesystem import Buffer
from libs.commitlog.files.reserved_file import RESERVE_SUFFIX
from libs.commitlog.partition_log.directory import LOG_START_OFFSETS
from libs.rpc.contracts.storage import OPEN_FILE, OpenFile, OpenFileReply
from libs.rpc.messages.schema import unpack
from libs.wire.errors import ErrorCode
from tests.storage.cluster import NODE_ID, StorageCluster, directory, partition_of
from tests.storage.held_disk import HeldDisk
from tests.storage.retention import HOUR, check, earliest, make, names, now_batch, starts_on_disk
from tests.storage.set_clock import SetClock
from tests.support.polling import until

SMALL = {"internal.segment.bytes": "300"}


async def fill(cluster: StorageCluster, clock: SetClock, topic: bytes, batches: int = 10) -> None:
    for _ in range(batches):
        assert (await cluster.append(topic, now_batch(clock))).error == 0


async def test_segments_older_than_retention_ms_go_and_their_files_later(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "aged", retention_ms=str(HOUR))
    await fill(cluster, clock, topic)
    await check(cluster)
    assert await earliest(cluster, topic) == 0
    clock.now_ms += HOUR // 2
    await fill(cluster, clock, topic)
    clock.now_ms += HOUR // 2 + 1
    await check(cluster)
    start = await earliest(cluster, topic)
    assert 8 <= start <= 10
    assert (await cluster.fetch(topic, 0)).error == ErrorCode.OFFSET_OUT_OF_RANGE
    part = await cluster.fetch(topic, start)
    assert (part.error, part.log_start_offset, part.high_watermark) == (0, start, 20)
    path = directory(cluster, "aged")
    assert names(path, ".log")[0] == f"{start:020d}.log"
    await until(lambda: not names(path, ".deleted"))
    assert starts_on_disk(cluster) == {("aged", 0): start}


async def test_everything_may_go_and_the_log_goes_on(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "emptied", retention_ms=str(HOUR))
    await fill(cluster, clock, topic)
    clock.now_ms += HOUR + 1
    await check(cluster)
    assert await earliest(cluster, topic) == 10
    assert len(partition_of(cluster, topic).log.segments) == 1
    assert (await cluster.append(topic, now_batch(clock))).base_offset == 10
    await cluster.stop()
    await cluster.start()
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)
    assert (await earliest(cluster, topic), (await cluster.list_offset(topic, -1)).offset) == (10, 11)


async def test_segments_beyond_retention_bytes_go(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "sized", retention_bytes="600")
    await fill(cluster, clock, topic, 30)
    before = partition_of(cluster, topic).log.size
    await check(cluster)
    log = partition_of(cluster, topic).log
    assert 600 <= log.size < min(before, 600 + 300)
    assert await earliest(cluster, topic) == log.segments[0].base_offset > 0


async def test_retention_can_be_changed_while_the_topic_lives(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "changed", retention_ms="-1")
    await fill(cluster, clock, topic)
    clock.now_ms += 1000 * HOUR
    await check(cluster)
    assert await earliest(cluster, topic) == 0
    await cluster.write(keys.config("topic", "changed"), encode(ConfigOverrides({**SMALL, "retention.ms": str(HOUR)})))
    await until(lambda: partition_of(cluster, topic).config.retention_ms == HOUR)
    await check(cluster)
    assert await earliest(cluster, topic) == 10


@pytest.mark.parametrize(("name", "value"), [("log.retention.ms", str(HOUR)), ("log.retention.bytes", "0")])
async def test_the_brokers_configs_hold_where_a_topic_has_none(
    cluster: StorageCluster, clock: SetClock, name: str, value: str
) -> None:
    topic = await make(cluster, "inherits")
    await fill(cluster, clock, topic)
    clock.now_ms += HOUR + 1
    await check(cluster)
    assert await earliest(cluster, topic) == 0
    before = partition_of(cluster, topic).config
    await cluster.write(keys.config("broker", ""), encode(ConfigOverrides({name: value})))
    await until(lambda: partition_of(cluster, topic).config != before)
    await check(cluster)
    assert await earliest(cluster, topic) == 10


async def test_a_week_is_the_default(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "week")
    await fill(cluster, clock, topic)
    clock.now_ms += 7 * 24 * HOUR
    await check(cluster)
    assert await earliest(cluster, topic) == 0
    clock.now_ms += 1
    await check(cluster)
    assert await earliest(cluster, topic) == 10


async def test_a_clock_that_jumps_back_deletes_nothing(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "back", retention_ms=str(HOUR))
    await fill(cluster, clock, topic)
    clock.jumped_ms -= 10_000 * HOUR
    await check(cluster)
    assert await earliest(cluster, topic) == 0
    clock.now_ms += 2 * HOUR
    await check(cluster)
    assert await earliest(cluster, topic) == 0


async def test_a_clock_that_jumps_ahead_deletes_what_was_due_anyway_and_the_rest_when_it_stays_there(
    cluster: StorageCluster, clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await make(cluster, "ahead", retention_ms=str(HOUR))
    await fill(cluster, clock, topic)
    clock.now_ms += HOUR // 2
    await fill(cluster, clock, topic)
    clock.jumped_ms += 10_000 * HOUR
    await check(cluster)
    assert await earliest(cluster, topic) == 0
    assert "the clock jumped ahead" in caplog.text
    clock.now_ms += HOUR // 2 + 1
    await check(cluster)
    assert 8 <= await earliest(cluster, topic) <= 10
    clock.jumped_ms = 0
    await check(cluster)
    assert 8 <= await earliest(cluster, topic) <= 10
    clock.jumped_ms += 10_000 * HOUR
    await check(cluster)
    clock.now_ms += HOUR
    await check(cluster)
    assert await earliest(cluster, topic) == 20


async def test_uncommitted_records_stay(cluster: StorageCluster, clock: SetClock, disk: HeldDisk) -> None:
    topic = await make(cluster, "uncommitted", retention_ms=str(HOUR))
    await fill(cluster, clock, topic, 4)
    disk.hold()
    for _ in range(6):
        await cluster.append(topic, now_batch(clock), acks=1)
    clock.now_ms += HOUR + 1
    one = partition_of(cluster, topic)
    assert cluster.node is not None
    await cluster.node.opened.background.retention._expire_segments(one)
    assert 0 < one.log.next_start_offset <= one.high_watermark == 4
    disk.release()


async def test_a_disk_that_takes_no_byte_more_is_freed(
    cluster: StorageCluster, clock: SetClock, disk: HeldDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await make(cluster, "filling", retention_ms=str(HOUR))
    await fill(cluster, clock, topic)
    path = directory(cluster, "filling")
    before = names(path, ".log")
    clock.now_ms += HOUR + 1
    write = disk.pwritev

    def full(fd: int, buffers: Sequence[Buffer], position: int) -> int:
        has_its_room = (RESERVE_SUFFIX, ".index", ".timeindex")
        if not os.readlink(f"/proc/self/fd/{fd}").endswith(has_its_room):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, buffers, position)

    monkeypatch.setattr(disk, "pwritev", full)
    await check(cluster)
    assert await earliest(cluster, topic) == 10
    await until(lambda: not set(before[:-1]) & set(names(path, ".log")))


async def test_readers_keep_the_files_that_they_opened(cluster: StorageCluster, clock: SetClock) -> None:
    topic = await make(cluster, "held", retention_ms=str(HOUR))
    await fill(cluster, clock, topic)
    (part,) = (await cluster.fetch(topic, 0)).ranges
    assert cluster.client is not None
    opened = await cluster.client.call(OPEN_FILE, OpenFile(part.file_id), timeout_s=60)
    (descriptor,) = opened.descriptors
    before = os.pread(descriptor, part.length, part.position)
    clock.now_ms += HOUR + 1
    await check(cluster)
    await until(lambda: not names(directory(cluster, "held"), ".deleted"))
    assert len(before) == part.length
    assert os.pread(descriptor, part.length, part.position) == before
    os.close(descriptor)
    again = await cluster.client.call(OPEN_FILE, OpenFile(part.file_id), timeout_s=60)
    assert not unpack(OpenFileReply, again.body).exists


async def test_without_the_checkpoint_on_disk_nothing_goes(
    cluster: StorageCluster, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await make(cluster, "cautious", retention_ms=str(HOUR))
    await fill(cluster, clock, topic)
    rename = cluster.fs.rename

    def refusing(source: str, target: str) -> None:
        if target.endswith(LOG_START_OFFSETS):
            raise OSError(errno.EIO, "not now")
        rename(source, target)

    monkeypatch.setattr(cluster.fs, "rename", refusing)
    clock.now_ms += HOUR + 1
    await check(cluster)
    assert await earliest(cluster, topic) == 0
    assert not names(directory(cluster, "cautious"), ".deleted")
    monkeypatch.undo()
    await check(cluster)
    assert await earliest(cluster, topic) == 10


async def test_it_runs_by_itself_and_beside_deletions(cluster: StorageCluster, clock: SetClock) -> None:
    await cluster.write(keys.config("broker", ""), encode(ConfigOverrides({"log.retention.check.interval.ms": "5"})))
    await cluster.stop()
    await cluster.start()
    stays = await make(cluster, "stays", retention_ms=str(HOUR))
    goes = await make(cluster, "goes", retention_ms=str(HOUR))
    for topic in (stays, goes):
        await fill(cluster, clock, topic)
    clock.now_ms += HOUR + 1
    await cluster.write(keys.topic("goes"), None)
    await cluster.write(keys.partition(goes, 0), None)

    async def emptied() -> bool:
        return await earliest(cluster, stays) == 10

    await until(emptied)
    await until(lambda: not any(path.name.startswith("goes") for path in Path(cluster.config.directories[0]).iterdir()))
    assert cluster.node is not None
    assert cluster.node.ready() == (True, "")


async def test_a_topic_made_again_does_not_start_where_its_former_self_did(cluster: StorageCluster, clock: SetClock) -> None:
    former = await make(cluster, "again", retention_ms=str(HOUR))
    await fill(cluster, clock, former)
    clock.now_ms += HOUR + 1
    await check(cluster)
    await cluster.write(keys.topic("again"), None)
    await cluster.write(keys.partition(former, 0), None)
    topic = await make(cluster, "again")
    checkpoint = Path(cluster.config.directories[0]) / LOG_START_OFFSETS
    assert "again" not in checkpoint.read_text(encoding="utf-8")  # a crash now must not wipe the new one
    assert await earliest(cluster, topic) == 0
    assert (await cluster.append(topic, now_batch(clock))).base_offset == 0


async def test_the_files_of_a_deleted_topic_stay_for_the_brokers_delay(cluster: StorageCluster, clock: SetClock) -> None:
    await cluster.write(keys.config("broker", str(NODE_ID)), encode(ConfigOverrides({"log.segment.delete.delay.ms": "3600000"})))
    kept = await make(cluster, "kept")
    await fill(cluster, clock, kept)

    async def delete(name: str, topic: bytes) -> None:
        await cluster.write(keys.topic(name), None)
        await cluster.write(keys.partition(topic, 0), None)

    def left(name: str) -> list[str]:
        return [path.name for path in Path(cluster.config.directories[0]).iterdir() if path.name.startswith(name)]

    await delete("kept", kept)
    await until(lambda: [name for name in left("kept-0") if name.endswith("-delete")])
    assert cluster.node is not None
    await cluster.node.opened.reconciler.settled()
    await cluster.write(keys.config("broker", str(NODE_ID)), encode(ConfigOverrides({"log.segment.delete.delay.ms": "0"})))
    gone = await make(cluster, "gone", file_delete_delay_ms="3600000")  # it goes with the topic, as in Kafka
    await delete("gone", gone)
    await until(lambda: not left("gone-0"))
    assert left("kept-0")
