"""The promise of an answer: acks=all means on disk, and a disk that fails is never believed again."""

import asyncio
import errno
import gc

import pytest

from libs.wire.errors import ErrorCode
from tests.storage.cluster import StorageCluster, appended, batch
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until


async def test_acks_all_is_answered_only_after_the_sync_that_holds_it(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("synced")
    await cluster.append(topic, batch(b"before"))
    disk.hold()
    begun = disk.syncs_begun
    waiting = cluster.send([(topic, 0, batch(b"x"))])
    await until(lambda: disk.syncs_begun > begun)
    # acks=1 overtakes it, and neither is visible yet.
    assert (await cluster.append(topic, batch(b"y"), acks=1)).base_offset == 2
    assert not waiting.done()
    assert (await cluster.fetch(topic, 1)).high_watermark == 1
    disk.release()
    assert appended(await waiting)[0].base_offset == 1
    # Whoever waits or not: what acks=1 wrote becomes visible too.
    await until(lambda: _committed(cluster, topic, 3))


async def _committed(cluster: StorageCluster, topic: bytes, offset: int) -> bool:
    return (await cluster.list_offset(topic, -1)).offset == offset


async def test_an_append_that_waits_too_long_is_answered_with_a_timeout_and_stays(
    cluster: StorageCluster, disk: HeldDisk
) -> None:
    topic = await cluster.topic("late")
    disk.hold()
    assert (await cluster.append(topic, batch(b"x"), timeout_ms=30)).error == ErrorCode.REQUEST_TIMED_OUT
    assert (await cluster.append(topic, batch(b"y"), timeout_ms=60)).error == ErrorCode.REQUEST_TIMED_OUT
    disk.release()
    await until(lambda: _committed(cluster, topic, 2))


async def test_a_duplicate_of_something_uncommitted_waits_like_the_original(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("twice")
    sent = batch(b"a", b"b", producer=(5, 0, 0))
    disk.hold()
    original = cluster.send([(topic, 0, sent)])
    duplicate = cluster.send([(topic, 0, sent)])  # most likely in one read with the original
    await cluster.fetch(topic, 0)
    later = cluster.send([(topic, 0, sent)])  # surely in another
    impatient = await cluster.append(topic, sent, acks=1)
    assert (impatient.error, impatient.base_offset) == (0, 0)
    assert not original.done()
    assert not duplicate.done()
    assert not later.done()
    disk.release()
    assert [appended(await append)[0].base_offset for append in (original, duplicate, later)] == [0, 0, 0]
    assert (await cluster.list_offset(topic, -1)).offset == 2
    assert (await cluster.append(topic, sent)).base_offset == 0  # committed by now: answered at once
    assert (await cluster.append(topic, batch(b"c", producer=(5, 0, 9)))).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_full_disk_refuses_appends_and_serves_reads(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("full")
    await cluster.append(topic, batch(b"kept"))
    disk.fail_writes = errno.ENOSPC
    refused = batch(b"lost", producer=(5, 0, 0))
    for acks in (-1, 1, 0):
        assert (await cluster.append(topic, refused, acks=acks)).error == ErrorCode.KAFKA_STORAGE_ERROR
    part = await cluster.fetch(topic, 0)
    assert (part.error, part.high_watermark, len(part.ranges)) == (0, 1, 1)
    disk.fail_writes = None
    # Nothing of the refused batch is remembered: its retry is an original, at the next offset.
    assert (await cluster.append(topic, refused)).base_offset == 1


async def test_a_disk_that_is_full_when_a_round_leaves_a_resume_point_is_not_retired(
    cluster: StorageCluster, disk: HeldDisk
) -> None:
    """Files that a round writes besides the log only save work: a full disk has failed no sync, and reads go on."""
    topic = await cluster.topic("full")
    await cluster.append(topic, batch(b"kept"))
    assert cluster.node is not None
    partition = cluster.node.partitions.by_key[topic, 0]
    await until(lambda: not partition.sync.running)
    partition.log.roll()
    disk.hold()
    begun = disk.syncs_begun
    waiting = cluster.send([(topic, 0, batch(b"written"))])
    await until(lambda: disk.syncs_begun > begun)
    disk.fail_writes = errno.ENOSPC
    disk.release()
    assert appended(await waiting)[0].error == 0
    assert (await cluster.append(topic, batch(b"lost"))).error == ErrorCode.KAFKA_STORAGE_ERROR
    part = await cluster.fetch(topic, 0)
    assert (part.error, part.high_watermark) == (0, 2)
    assert not partition.sync.failed
    known = partition.log.recovery_point
    disk.fail_writes = None
    # There is room again: what could not be written is still owed, and comes with the next round.
    assert (await cluster.append(topic, batch(b"later"))).base_offset == 2
    await until(lambda: partition.log.recovery_point > known)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
async def test_a_resume_point_that_a_full_disk_prevented_is_written_when_there_is_room_without_any_client(
    cluster: StorageCluster, disk: HeldDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: int
) -> None:
    monkeypatch.setattr("services.storage.core.sync_states.NO_ROOM_S", 0.02)
    monkeypatch.setattr("services.storage.core.sync_states.REQUESTED_PER_ROUND", 2)
    topic = await cluster.topic("full", partitions=5)
    assert cluster.node is not None
    (home,) = cluster.node.opened.disks.all
    logs = [cluster.node.partitions.by_key[topic, index].log for index in range(5)]
    await home.sync.drain()
    disk.hold()
    begun = disk.syncs_begun
    waiting = [cluster.send([(topic, index, batch(b"written"))]) for index in range(5)]
    await until(lambda: disk.syncs_begun > begun and all(log.log_end_offset for log in logs))
    for log in logs:
        log.roll()
    disk.fail_writes = error
    disk.release()
    assert [appended(await append)[0].error for append in waiting] == [0] * 5
    for index in range(5):
        home.sync.request_round(cluster.node.partitions.by_key[topic, index])
    home.sync.start_round()
    await until(lambda: disk.writes_refused > 10)  # it tries again by itself
    assert cluster.node.ready() == (True, "")
    assert [log.recovery_point for log in logs] == [0] * 5
    assert sum("no room" in record.message for record in caplog.records) == 1
    disk.fail_writes = None
    await until(lambda: [log.recovery_point for log in logs] == [1] * 5)
    assert (await cluster.append(topic, batch(b"later"))).base_offset == 1


async def test_a_round_that_fails_after_its_directory_was_given_up_is_not_complained_about(
    cluster: StorageCluster, disk: HeldDisk
) -> None:
    topic = await cluster.topic("broken")
    await cluster.append(topic, batch(b"kept"))
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    disk.hold()
    begun = disk.syncs_begun
    waiting = cluster.send([(topic, 0, batch(b"x"))])
    await until(lambda: disk.syncs_begun > begun)
    assert cluster.node is not None
    (home,) = cluster.node.opened.disks.all
    disk.fail_syncs = errno.EIO
    home.sync.fail(OSError(errno.EIO, "a write failed"))
    assert appended(await waiting)[0].error == ErrorCode.KAFKA_STORAGE_ERROR
    disk.release()
    await home.sync.wait_for_round()
    gc.collect()
    assert not complaints


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
async def test_a_round_that_finds_no_descriptor_comes_again_and_retires_nothing(
    cluster: StorageCluster, disk: HeldDisk, error: int
) -> None:
    """To open a directory for its sync takes a descriptor. None was left: that says nothing of the disk."""
    topic = await cluster.topic("crowded")
    await cluster.append(topic, batch(b"kept"))
    begun = disk.syncs_begun
    disk.fail_syncs = error
    waiting = cluster.send([(topic, 0, batch(b"x"))])
    await until(lambda: disk.syncs_begun > begun + 1)  # it tries again by itself
    assert not waiting.done()
    assert (await cluster.fetch(topic, 0)).high_watermark == 1
    disk.fail_syncs = None
    assert appended(await waiting)[0].base_offset == 1
    assert cluster.node is not None
    assert cluster.node.ready() == (True, "")


async def test_a_duplicate_shares_the_fate_of_an_original_of_the_same_read(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("full")
    await cluster.append(topic, batch(b"kept"))
    disk.fail_writes = errno.ENOSPC
    sent = batch(b"lost", producer=(5, 0, 0))
    for acks in (-1, 1):
        both = [cluster.send([(topic, 0, sent)], acks=acks) for _ in range(2)]
        assert [appended(await append)[0].error for append in both] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    disk.fail_writes = None
    assert (await cluster.append(topic, sent)).base_offset == 1


async def test_a_failed_sync_retires_the_directory_for_good(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("broken")
    await cluster.append(topic, batch(b"kept"))
    member = await cluster.member()
    assert member is not None
    assert len(member.log_dirs) == 1
    disk.fail_syncs = errno.EIO
    assert (await cluster.append(topic, batch(b"x"))).error == ErrorCode.KAFKA_STORAGE_ERROR
    node = cluster.node
    assert node is not None
    await until(
        lambda: bool(node.opened.retirement_marks) and all(mark.done() for mark in node.opened.retirement_marks)
    )  # the mark is synced too
    disk.fail_syncs = None
    begun = disk.syncs_begun
    assert (await cluster.append(topic, batch(b"y"), acks=1)).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await cluster.fetch(topic, 0)).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert disk.syncs_begun == begun

    async def is_reported() -> bool:
        now = await cluster.member()
        return now is not None and now.log_dirs == ()

    await until(is_reported)
    assert cluster.node is not None
    assert cluster.node.ready() == (False, "every log directory has failed")


async def test_a_sync_that_hangs_is_noticed_and_takes_no_more_appends(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("hanging")
    await cluster.append(topic, batch(b"before"))  # no round of the creation runs any more
    assert cluster.node is not None
    for log_disk in cluster.node.opened.disks.all:
        log_disk.sync._hang_s = 0.02
    disk.hold()
    waiting = cluster.send([(topic, 0, batch(b"x"))])
    await until(lambda: cluster.node is not None and not cluster.node.ready()[0])
    assert (await cluster.append(topic, batch(b"y"), acks=1)).error == ErrorCode.KAFKA_STORAGE_ERROR
    disk.release()
    assert appended(await waiting)[0].error == 0
    assert cluster.node.ready() == (True, "")
    assert (await cluster.append(topic, batch(b"y"), acks=1)).error == 0


async def test_batches_of_one_read_share_a_write_and_a_sync_round(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("grouped")
    await cluster.append(topic, batch(b"warm"))
    disk.hold()
    begun = disk.syncs_begun
    first = cluster.send([(topic, 0, batch(b"first"))])
    await until(lambda: disk.syncs_begun > begun)
    many = [cluster.send([(topic, 0, batch(b"%d" % number))]) for number in range(50)]
    await cluster.fetch(topic, 0)  # answered after them: they are written
    disk.release()
    await asyncio.gather(first, *many)
    assert disk.syncs_begun - begun <= 4


async def test_a_partition_that_fails_unexpectedly_takes_none_of_its_turn_with_it(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, sound = await cluster.topic("broken"), await cluster.topic("sound")
    assert cluster.node is not None
    partition = cluster.node.partitions.by_key[broken, 0]

    def mistake(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(partition.log, "append", mistake)
    reply = await cluster.send([(broken, 0, batch(b"x")), (sound, 0, batch(b"y"))])
    assert [row.error for row in appended(reply)] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    monkeypatch.undo()
    # Nobody knows what is in the broken log: it takes nothing until it is opened again. The other goes on.
    assert (await cluster.append(broken, batch(b"x"))).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await cluster.append(sound, batch(b"y"))).base_offset == 1


async def test_each_stage_of_an_append_is_timed_once(cluster: StorageCluster) -> None:
    topic = await cluster.topic("timed")
    assert cluster.node is not None
    meters = cluster.node.meters
    for acks, counts in ((1, (1, 0)), (-1, (2, 1))):
        await cluster.append(topic, batch(b"x"), acks=acks)
        assert (meters.appended.count, meters.synced.count) == counts
