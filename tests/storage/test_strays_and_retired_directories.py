"""Strays that a start finds on its disks, and directories that an earlier process retired."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import ConfigOverrides, InSync, PartitionState, Replica, Topic
from libs.commitlog.model.errors import DirectoryRetired
from libs.wire.errors import ErrorCode
from tests.storage.cluster import NODE_ID, StorageCluster, batch
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until


def directories(cluster: StorageCluster) -> list[str]:
    return sorted(path.name for path in Path(cluster.config.directories[0]).iterdir() if path.is_dir())


async def delete(cluster: StorageCluster, name: str, topic: bytes) -> None:
    await cluster.write(keys.topic(name), None)
    await cluster.write(keys.partition(topic, 0), None)


async def test_a_topic_deleted_while_the_node_was_down_is_set_aside(
    cluster: StorageCluster, caplog: pytest.LogCaptureFixture
) -> None:
    gone, kept = await cluster.topic("gone"), await cluster.topic("kept")
    for topic in (gone, kept):
        await cluster.append(topic, batch(b"x"))
    await cluster.stop()
    await delete(cluster, "gone", gone)
    await cluster.start()
    assert directories(cluster) == [f"gone-0.{gone.hex()}-stray", "kept-0"]
    assert "stray partition set aside, remove it if nobody misses it" in caplog.messages
    await cluster.stop()
    await cluster.start()
    assert directories(cluster) == [f"gone-0.{gone.hex()}-stray", "kept-0"]
    await cluster.state(kept, epoch=1)
    await cluster.leads(kept, epoch=1)
    assert (await cluster.list_offset(kept, -1)).offset == 1


async def test_a_partition_that_moved_away_while_the_node_was_down_is_set_aside(cluster: StorageCluster) -> None:
    moved = await cluster.topic("moved")
    await cluster.stop()
    await cluster.write(keys.partition(moved, 0), None)
    await cluster.start()
    assert directories(cluster) == [f"moved-0.{moved.hex()}-stray"]


async def test_each_stray_is_named_once_with_what_the_metadata_say_and_the_way_out(
    cluster: StorageCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The metadata were restored from a backup: only a line told what they lack, and not why, nor how to have it back."""
    unknown, moved, again = [await cluster.topic(name) for name in ("unknown", "moved", "again")]
    shrunk = await cluster.topic("shrunk", partitions=2)
    for topic in (unknown, moved, again):
        await cluster.append(topic, batch(b"x"))
    await cluster.stop()
    await delete(cluster, "unknown", unknown)
    await cluster.write(keys.partition(moved, 0), encode(PartitionState((Replica(7, ""),), 7, 1, 1, 1, (InSync(7, 1),))))
    await cluster.write(keys.topic("shrunk"), encode(Topic("shrunk", shrunk.hex(), 1)))
    await delete(cluster, "again", again)
    await cluster.write(keys.topic("again"), encode(Topic("again", bytes(range(16)).hex(), 1)))
    await cluster.start()
    told = [record.__dict__["fields"] for record in caplog.records if record.message.startswith("stray partition set aside")]
    assert {(line["topic"], line["partition"]): line["reason"] for line in told} == {
        ("unknown", 0): "the topic is unknown",
        ("moved", 0): "its replicas are on other nodes",
        ("shrunk", 1): "the partition is unknown",
        ("again", 0): "another topic has the name",
    }
    aside = [name for name in directories(cluster) if name.endswith("-stray")]
    assert sorted(line["path"].rpartition("/")[2] for line in told) == aside
    assert {line["way_out"] for line in told} == {"to have it back: docs/operate/restoring-metadata.md, Strays"}
    assert len(told) == 4


async def test_a_stray_whose_name_was_given_again_is_set_aside_too(cluster: StorageCluster) -> None:
    """Metadata from an old backup, and a producer that has its topic made again before the node is back: the records are kept."""
    former = await cluster.topic("again")
    await cluster.append(former, batch(b"x"))
    await cluster.stop()
    await delete(cluster, "again", former)
    topic = bytes(range(16))
    await cluster.state(topic, epoch=0)
    await cluster.write(keys.topic("again"), encode(Topic("again", topic.hex(), 1)))
    await cluster.start()
    assert directories(cluster) == ["again-0", f"again-0.{former.hex()}-stray"]
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)
    assert (await cluster.append(topic, batch(b"y"))).base_offset == 0
    await cluster.stop()
    await cluster.start()
    assert directories(cluster) == ["again-0", f"again-0.{former.hex()}-stray"]


async def test_a_topic_made_again_while_the_node_was_down_starts_empty(cluster: StorageCluster) -> None:
    former = await cluster.topic("again")
    await cluster.append(former, batch(b"x"))
    await cluster.stop()
    await delete(cluster, "again", former)
    await cluster.start()
    topic = await cluster.topic("again")
    assert (await cluster.append(topic, batch(b"y"))).base_offset == 0


async def test_a_partition_that_cannot_be_opened_is_no_stray(cluster: StorageCluster) -> None:
    topic = await cluster.topic("damaged")
    await cluster.append(topic, batch(b"x"))
    await cluster.stop()
    log = Path(cluster.config.directories[0]) / "damaged-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-1])
    await cluster.start()
    assert directories(cluster) == ["damaged-0"]
    assert (await cluster.append(topic, batch(b"y"))).error == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_retired_directory_is_refused_until_an_operator_removes_the_mark(cluster: StorageCluster, disk: HeldDisk) -> None:
    """The page cache of the failed process may hold what its disk does not."""
    await cluster.stop()
    root = cluster.config.data_dir
    one, two = Path(root) / "one", Path(root) / "two"
    cluster.config = replace(cluster.config, log_dirs=(str(one), str(two)))
    await cluster.start()
    assert cluster.node is not None
    bad = cluster.node.opened.disks.all[0]
    bad.sync.fail(OSError(errno.EIO, "the sync failed"))
    await until((one / ".retired").exists)
    await cluster.stop()
    await cluster.start()
    assert [disk.path for disk in cluster.node.opened.disks.all] == [str(two)]
    await cluster.stop()
    (one / ".retired").unlink()
    await cluster.start()
    assert [disk.path for disk in cluster.node.opened.disks.all] == [str(one), str(two)]


async def test_after_a_failed_sync_nobody_trusts_the_page_cache_though_an_operator_removes_the_mark(
    cluster: StorageCluster, disk: HeldDisk
) -> None:
    """The kernel may have dropped what it could not write: the next life must not claim to have all of it."""
    assert cluster.node is not None
    cluster.node.opened.disks.all[0].sync.fail(OSError(errno.EIO, "the sync failed"))
    mark = Path(cluster.config.directories[0]) / ".retired"
    await until(mark.exists)
    await cluster.stop()
    mark.unlink()
    await cluster.start()
    member = await cluster.member()
    assert member is not None
    assert (member.incarnation, member.survived_from) == (2, 2)
    await cluster.stop()
    await cluster.start()
    member = await cluster.member()
    assert member is not None
    assert (member.incarnation, member.survived_from) == (3, 2)


async def test_a_failed_sync_leaves_the_mark_though_nothing_can_be_synced(cluster: StorageCluster, disk: HeldDisk) -> None:
    topic = await cluster.topic("broken")
    disk.fail_syncs = errno.EIO
    assert (await cluster.append(topic, batch(b"x"))).error == ErrorCode.KAFKA_STORAGE_ERROR
    mark = Path(cluster.config.directories[0]) / ".retired"
    await cluster.stop()
    disk.fail_syncs = None
    assert "EIO" in mark.read_text(encoding="utf-8")
    with pytest.raises(DirectoryRetired, match=r"check its disk, then remove .*/logs/\.retired"):
        await cluster.start()
    assert cluster.node is not None
    cluster.node = None


async def test_a_partition_deleted_while_the_node_starts_keeps_its_delay(cluster: StorageCluster) -> None:
    await cluster.write(keys.config("broker", str(NODE_ID)), encode(ConfigOverrides({"log.segment.delete.delay.ms": "3600000"})))
    topic = await cluster.topic("deleted")
    await cluster.write(keys.topic("deleted"), None)
    (disk,) = cluster.node.opened.disks.usable
    path = Path(disk.path) / f"deleted-0.{topic.hex()}-delete"
    await until(path.exists)
    await disk.remove_deleted()
    assert path.exists()
