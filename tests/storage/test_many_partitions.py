"""More partitions than descriptors."""

import asyncio
from dataclasses import replace

import pytest

from libs.commitlog.files.open_files import OpenFiles
from libs.commitlog.partition_log.directory import LOG_START_OFFSETS
from services.storage.partition.partition import Key, Partition
from services.storage.reconcile.reconciler import PARTITIONS_PER_TURN, Reconciler
from services.storage.threads import turns
from tests.storage.cluster import StorageCluster, appended, batch
from tests.support.polling import until

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


async def test_a_change_of_configs_for_all_partitions_lets_requests_in_between(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.topic("many", partitions=PARTITIONS)
    few = await cluster.topic("few", partitions=2)
    assert cluster.node is not None
    reconciler, partitions = cluster.node.opened.reconciler, cluster.node.partitions
    configured: list[Partition] = []
    configure = Partition.configure
    monkeypatch.setattr(Partition, "configure", lambda self, config: (configured.append(self), configure(self, config)))
    image = partitions.image
    for _ in range(2):  # the second comes before the first is through
        values = {"log.retention.ms": str(len(configured) + 7)}
        image = replace(image, overrides_by_resource={**image.overrides_by_resource, ("broker", ""): values})
        reconciler.follow(partitions.image, image)
        assert len(configured) == PARTITIONS_PER_TURN
    await until(lambda: all(partition.config.retention_ms == 27 for partition in partitions.by_key.values()))
    configured.clear()
    own = {("topic", "few"): {"retention.ms": "5"}}
    reconciler.follow(image, replace(image, overrides_by_resource={**image.overrides_by_resource, **own}))
    assert {partition.key for partition in configured} == {(few, 0), (few, 1)}


async def test_a_checkpoint_of_all_partitions_lets_requests_in_between(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.topic("many", partitions=PARTITIONS)
    assert cluster.node is not None
    checkpoints, partitions = cluster.node.opened.checkpoints, cluster.node.partitions
    (disk,) = cluster.node.opened.disks.all
    started: list[int] = []
    monkeypatch.setattr(turns, "STRETCH_S", 0.0)

    def start(partition: Partition) -> int:
        started.append(partition.key[1])
        return 1 if len(started) <= PARTITIONS else 2

    older = asyncio.ensure_future(checkpoints._write_one(disk, LOG_START_OFFSETS, start))
    newer = asyncio.ensure_future(checkpoints._write_one(disk, LOG_START_OFFSETS, start))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(started) == 1  # the newer one waits for the older one to be written
    assert await older
    assert await newer
    assert len(started) == 2 * PARTITIONS == 2 * len(partitions.by_key)
    assert {entry.offset for entry in disk.directory.read_checkpoint(LOG_START_OFFSETS).values()} == {2}


async def test_writes_that_nobody_flushes_are_flushed_when_they_hold_too_many_files(cluster: StorageCluster) -> None:
    await cluster.stop()
    cluster.open_files = OpenFiles(FEW)
    node = await cluster.start()
    topic_id = await cluster.topic("t", partitions=PARTITIONS, durability="replicated")
    (disk,) = node.opened.disks.all
    await disk.sync.drain()  # of the new epochs: one round takes all that was owed, and holds up the next
    for index in range(PARTITIONS):
        answer = await cluster.append(topic_id, batch(b"x"), index=index, acks=1)
        assert answer.error == 0
        if cluster.open_files.crowded:
            await disk.sync.wait_for_round()
    assert len(cluster.open_files) <= FEW
    logs = [node.partitions.by_key[topic_id, index].log for index in range(PARTITIONS)]
    assert [log.log_end_offset for log in logs] == [1] * PARTITIONS
    assert any(log.durable_offset for log in logs)
    await cluster.stop()
    assert cluster.fs.exists(f"{disk.path}/.kafka_cleanshutdown")


async def test_writers_that_are_refused_for_want_of_descriptors_succeed_later(cluster: StorageCluster) -> None:
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

    await until(write_all)


async def test_a_partition_is_worked_on_once_when_a_node_first_hears_of_its_topic(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state is new, and so is its topic's record: of ten thousand, each was worked on twice at every start."""
    topic_id = await cluster.topic("many", partitions=PARTITIONS)
    await cluster.stop()
    for index in range(PARTITIONS):
        await cluster.state(topic_id, index, epoch=1, incarnation=cluster.incarnation + 1)
    worked: list[Key] = []
    work = Reconciler._work
    monkeypatch.setattr(Reconciler, "_work", lambda self, key: (worked.append(key), work(self, key))[1])
    await cluster.start()
    assert sorted(worked) == [(topic_id, index) for index in range(PARTITIONS)]
