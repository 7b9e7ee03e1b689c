"""More partitions than descriptors."""

import asyncio

from libs.commitlog.open_files import OpenFiles
from tests.storage.cluster import StorageCluster, appended, batch, eventually

PARTITIONS = 100
FEW = 64


async def test_more_partitions_than_descriptors_are_created_written_and_read(cluster: StorageCluster) -> None:
    await cluster.stop()
    cluster.open_files = OpenFiles(FEW)
    await cluster.start()
    topic_id = await cluster.topic("t", partitions=PARTITIONS)
    assert len(cluster.open_files) <= FEW
    for turn in range(3):
        for index in range(PARTITIONS):
            answer = await cluster.append(topic_id, batch(b"x" * 5000), index=index)
            assert (answer.error, answer.base_offset) == (0, turn)
            assert len(cluster.open_files) <= FEW
    for index in range(PARTITIONS):
        assert (await cluster.list_offset(topic_id, 0, index=index)).offset == 0
        assert len(cluster.open_files) <= FEW


async def test_writes_that_nobody_flushes_are_flushed_when_they_hold_too_many_files(cluster: StorageCluster) -> None:
    await cluster.stop()
    cluster.open_files = OpenFiles(FEW)
    node = await cluster.start()
    topic_id = await cluster.topic("t", partitions=PARTITIONS, durability="replicated")
    (disk,) = node._disks.all
    await disk.sync.drain()  # of the new epochs: one round takes all that was owed, and holds up the next
    for index in range(PARTITIONS):
        answer = await cluster.append(topic_id, batch(b"x"), index=index, acks=1)
        assert answer.error == 0
        if cluster.open_files.crowded:
            await disk.sync.quiet()
    assert len(cluster.open_files) <= FEW
    logs = [node._partitions.by_key[topic_id, index].log for index in range(PARTITIONS)]
    assert [log.log_end_offset for log in logs] == [1] * PARTITIONS
    assert any(log.durable_offset for log in logs)
    await cluster.stop()
    assert cluster.fs.exists(f"{disk.path}/.kafka_cleanshutdown")


async def test_writers_who_are_refused_for_want_of_descriptors_succeed_later(cluster: StorageCluster) -> None:
    await cluster.stop()
    cluster.open_files = OpenFiles(48)
    await cluster.start()
    topic_id = await cluster.topic("t", partitions=PARTITIONS)
    written: set[int] = set()

    async def write_all() -> bool:
        left = [index for index in range(PARTITIONS) if index not in written]
        answers = appended(await cluster.send([(topic_id, index, batch(b"x" * 5000)) for index in left]))
        written.update(index for index, answer in zip(left, answers, strict=True) if answer.error == 0)
        await asyncio.sleep(0)
        return len(written) == PARTITIONS

    await eventually(write_all)
