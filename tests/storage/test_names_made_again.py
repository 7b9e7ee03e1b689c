"""A log that takes the name of a former one inherits nothing from it: no cleaned offset, no start, no loss.

Of a key whose last record is a tombstone, no older value may ever be seen again.
"""

import errno
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import InSync, PartitionState, Replica, Topic
from libs.commitlog.checkpoints.offset_checkpoint import Entry, format_entries, parse_entries
from libs.commitlog.partition_log.directory import CLEANED_OFFSETS, HIGH_WATERMARKS, LogDirectory
from libs.wire.record_batches.records import Record, build_batch, iter_records
from services.storage.cleanup.compaction import Compaction
from services.storage.cleanup.log_cleaner import LogCleaner
from services.storage.disks.disks import Disk
from services.storage.logs.checkpoints import Checkpoints
from services.storage.partition.partition import Partition
from tests.commitlog.cleaned import batches_of
from tests.storage.cluster import StorageCluster, batch, directory, partition_of
from tests.storage.fake_leader import FakeLeader
from tests.storage.following import caught_up, followed, log_of, log_with
from tests.storage.held_disk import HeldDisk
from tests.storage.set_clock import SetClock
from tests.support.polling import until

COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "400",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}
NAME = "made-again"


def compacted() -> dict[str, Any]:
    return {name.replace(".", "_"): value for name, value in COMPACTED.items()}


async def write(cluster: StorageCluster, topic: bytes, clock: SetClock, *entries: tuple[bytes, bytes | None]) -> None:
    for key, value in entries:
        assert (await cluster.append(topic, bytes(build_batch([Record(key, value, clock.now_ms)])))).error == 0


async def fill(cluster: StorageCluster, topic: bytes, clock: SetClock, keys_of: str, count: int) -> None:
    await write(cluster, topic, clock, *[(b"%s-%d" % (keys_of.encode(), number), b"v" * 40) for number in range(count)])


async def write_secret_and_delete_it(cluster: StorageCluster, topic: bytes, clock: SetClock) -> None:
    """The value and its tombstone lie before where the former log was compacted to, in segments of their own."""
    await write(cluster, topic, clock, (b"secret", b"SECRET"))
    await fill(cluster, topic, clock, "first", 10)
    await write(cluster, topic, clock, (b"secret", None))
    await fill(cluster, topic, clock, "second", 30)


def cleaning(cluster: StorageCluster) -> LogCleaner:
    assert cluster.node is not None
    return cluster.node.opened.background.cleaning


async def compact_again_and_again(cluster: StorageCluster, topic: bytes, clock: SetClock) -> None:
    """So often that the tombstone's time is over."""
    for number in range(3):
        await cleaning(cluster).check()
        clock.now_ms += 60_000
        await fill(cluster, topic, clock, f"round {number}", 10)


def secrets(cluster: StorageCluster, topic: bytes) -> list[bytes | None]:
    records = [record for batch in batches_of(partition_of(cluster, topic).log) for record in iter_records(batch)]
    return [record.value for record in records if record.key == b"secret"]


def checkpoint(cluster: StorageCluster, name: str = CLEANED_OFFSETS) -> Mapping[tuple[str, int], Entry]:
    path = Path(cluster.config.directories[0]) / name
    return parse_entries(path.read_bytes(), str(path))


async def make(cluster: StorageCluster, epoch: int = 0) -> bytes:
    return await cluster.topic(NAME, epoch=epoch, **compacted())


async def delete(cluster: StorageCluster, topic: bytes) -> None:
    await cluster.write(keys.partition(topic, 0), None)
    await cluster.write(keys.topic(NAME), None)
    await until(lambda: not directory(cluster, NAME).exists())


async def restart(cluster: StorageCluster, topic: bytes, epoch: int) -> None:
    await cluster.stop()
    await cluster.start()
    await cluster.state(topic, epoch=epoch)
    await cluster.leads(topic, epoch=epoch)


async def test_a_deleted_key_stays_deleted_in_a_topic_whose_name_was_compacted(cluster: StorageCluster, clock: SetClock) -> None:
    former = await make(cluster)
    await fill(cluster, former, clock, "former", 60)
    await cleaning(cluster).check()
    assert checkpoint(cluster)[NAME, 0].offset > 40
    await delete(cluster, former)
    topic = await make(cluster)
    await write_secret_and_delete_it(cluster, topic, clock)
    await restart(cluster, topic, epoch=1)
    await compact_again_and_again(cluster, topic, clock)
    await cleaning(cluster).check()
    assert secrets(cluster, topic) in ([], [None])


async def test_a_deleted_key_stays_deleted_in_a_replica_that_left_and_came_back(cluster: StorageCluster, clock: SetClock) -> None:
    """The topic's id is the same, so that entries must be gone before."""
    topic = await make(cluster)
    await fill(cluster, topic, clock, "former", 60)
    await cleaning(cluster).check()
    elsewhere = PartitionState((Replica(2, ""),), 2, 1, 1, 0, (InSync(2, 1),))
    await cluster.write(keys.partition(topic, 0), encode(elsewhere))
    await until(lambda: not directory(cluster, NAME).exists())
    assert (NAME, 0) not in checkpoint(cluster)
    await cluster.state(topic, epoch=2)
    await cluster.leads(topic, epoch=2)
    await write_secret_and_delete_it(cluster, topic, clock)
    await restart(cluster, topic, epoch=3)
    await compact_again_and_again(cluster, topic, clock)
    await cleaning(cluster).check()
    assert secrets(cluster, topic) in ([], [None])


async def test_an_entry_of_a_former_version_is_not_taken_for_the_new_topics(cluster: StorageCluster, clock: SetClock) -> None:
    """It named no topic ids, and left entries of deleted topics behind."""
    topic = await make(cluster)
    await write_secret_and_delete_it(cluster, topic, clock)
    await cluster.stop()
    (Path(cluster.config.directories[0]) / CLEANED_OFFSETS).write_bytes(format_entries({(NAME, 0): Entry(41)}))
    await cluster.start()
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)
    await compact_again_and_again(cluster, topic, clock)
    await cleaning(cluster).check()
    assert secrets(cluster, topic) in ([], [None])


@pytest.mark.parametrize("of", ["kafka", "another topic"])
async def test_the_cleaned_offset_of_a_kafka_broker_counts_and_that_of_another_topic_does_not(
    cluster: StorageCluster, clock: SetClock, of: str
) -> None:
    topic = await make(cluster)
    await fill(cluster, topic, clock, "v", 40)
    await cluster.stop()
    path = Path(cluster.config.directories[0]) / CLEANED_OFFSETS
    if of == "kafka":
        path.write_text(f"0\n1\n{NAME} 0 30\n", encoding="utf-8")
    else:
        path.write_bytes(format_entries({(NAME, 0): Entry(30, b"another topic's.")}))
    await cluster.start()
    assert cluster.node is not None
    (disk,) = cluster.node.opened.disks.usable
    assert disk.cleaned_offsets == ({(topic, 0): 30} if of == "kafka" else {})


async def test_a_truncation_lowers_the_cleaned_offset_before_the_log_grows_again(
    cluster: StorageCluster, leader: FakeLeader
) -> None:
    """An unclean election cuts what was compacted already. No look of the cleaner comes before the crash."""
    topic, _ = await followed(cluster, leader, NAME, epoch=0)
    await leader.leads(topic, epoch=0, log=log_with((0, 9)))
    leader.changed()
    await caught_up(cluster, topic, leader.logs[topic, 0])
    assert cluster.node is not None
    (disk,) = cluster.node.opened.disks.usable
    disk.cleaned_offsets[topic, 0] = 8
    await cluster.node.opened.checkpoints.write_cleaned_offsets(disk)
    assert checkpoint(cluster) == {(NAME, 0): Entry(8, topic)}
    cut = log_with((0, 5), (1, 6))
    await leader.leads(topic, epoch=1, log=cut)
    await until(lambda: log_of(cluster, topic).log_end_offset == cut.end)
    assert disk.cleaned_offsets == {(topic, 0): 5}
    assert checkpoint(cluster).get((NAME, 0), Entry(0)).offset <= 5


async def test_a_compaction_that_ends_while_its_log_is_about_to_be_cut_claims_nothing_beyond_the_cut(
    cluster: StorageCluster, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await make(cluster)
    await fill(cluster, topic, clock, "v", 40)
    sweep: Callable[..., Awaitable[None]] = vars(Compaction)["_sweep"]
    claimed: list[int | None] = []

    async def swept(self: Compaction, partition: Partition, disk: Disk) -> None:
        await sweep(self, partition, disk)
        claimed.append(disk.cleaned_offsets.get(partition.key))
        if len(claimed) == 1:
            partition.log.truncated_to = 12  # a cut is announced

    monkeypatch.setattr(Compaction, "_sweep", swept)
    await cleaning(cluster).check()
    assert claimed == [None, 12]


async def test_a_log_that_opens_shorter_than_it_was_compacted_forgets_that_before_it_grows(
    cluster: StorageCluster, clock: SetClock
) -> None:
    topic = await make(cluster)
    await fill(cluster, topic, clock, "v", 10)
    await cluster.stop()
    (Path(cluster.config.directories[0]) / CLEANED_OFFSETS).write_bytes(format_entries({(NAME, 0): Entry(50, topic)}))
    await cluster.start()
    assert checkpoint(cluster).get((NAME, 0), Entry(0)).offset <= 10
    assert cluster.node is not None
    (disk,) = cluster.node.opened.disks.usable
    assert disk.cleaned_offsets == {(topic, 0): 10}


@pytest.mark.parametrize("looked", [False, True], ids=["", "after a look of the cleaner"])
async def test_a_cleaned_offset_that_the_disk_kept_is_dropped_by_the_next_attempt(
    cluster: StorageCluster, disk: HeldDisk, looked: bool
) -> None:
    """The first attempt has lowered the offset in memory, and nothing on the disk."""
    topic = await make(cluster)
    assert cluster.node is not None
    (held,) = cluster.node.opened.disks.usable
    held.cleaned_offsets[topic, 0] = 8
    await cluster.node.opened.checkpoints.write_cleaned_offsets(held)
    refuse_cleaned_offsets(cluster, disk)
    with pytest.raises(OSError, match="EIO"):
        await held.limit_cleaned_offset((topic, 0), NAME, 5)
    if looked:
        held.cleaned_offsets[topic, 0] = 4
    disk.fail_syncs = None
    await held.limit_cleaned_offset((topic, 0), NAME, 5)
    assert (NAME, 0) not in checkpoint(cluster)
    assert held.cleaned_offsets == {(topic, 0): 4 if looked else 5}
    await cluster.node.opened.checkpoints.write_cleaned_offsets(held)
    await held.limit_cleaned_offset((topic, 0), NAME, 5)
    assert (NAME, 0) in checkpoint(cluster)


async def test_a_log_whose_deletion_failed_is_not_cut_while_the_disk_has_its_cleaned_offset(
    cluster: StorageCluster, disk: HeldDisk
) -> None:
    topic = await make(cluster)
    assert cluster.node is not None
    (held,) = cluster.node.opened.disks.usable
    held.cleaned_offsets[topic, 0] = 8
    await cluster.node.opened.checkpoints.write_cleaned_offsets(held)
    refuse_cleaned_offsets(cluster, disk)
    with pytest.raises(OSError, match="EIO"):
        await held.set_aside((topic, 0), NAME)
    disk.fail_syncs = None
    await held.limit_cleaned_offset((topic, 0), NAME, 5)
    assert (NAME, 0) not in checkpoint(cluster)


async def test_a_truncation_is_tried_again_with_its_cleaned_offset(
    cluster: StorageCluster, leader: FakeLeader, disk: HeldDisk
) -> None:
    topic, _ = await followed(cluster, leader, NAME, epoch=0)
    await leader.leads(topic, epoch=0, log=log_with((0, 9)))
    leader.changed()
    await caught_up(cluster, topic, leader.logs[topic, 0])
    assert cluster.node is not None
    (held,) = cluster.node.opened.disks.usable
    held.cleaned_offsets[topic, 0] = 8
    await cluster.node.opened.checkpoints.write_cleaned_offsets(held)
    refuse_cleaned_offsets(cluster, disk)
    cut = log_with((0, 5), (1, 6))
    await leader.leads(topic, epoch=1, log=cut)
    await until(lambda: disk.syncs_refused > 0)
    disk.fail_syncs = None
    await until(lambda: log_of(cluster, topic).log_end_offset == cut.end)
    assert checkpoint(cluster).get((NAME, 0), Entry(0)).offset <= 5


async def test_an_opening_is_tried_again_with_its_cleaned_offset(
    cluster: StorageCluster, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await make(cluster)
    await fill(cluster, topic, clock, "v", 10)
    await cluster.stop()
    (Path(cluster.config.directories[0]) / CLEANED_OFFSETS).write_bytes(format_entries({(NAME, 0): Entry(50, topic)}))
    drop, dropped = LogDirectory.drop_cleaned_offset, list[str]()

    def refused_once(self: LogDirectory, topic: str, partition: int) -> None:
        dropped.append(topic)
        if len(dropped) == 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        drop(self, topic, partition)

    monkeypatch.setattr(LogDirectory, "drop_cleaned_offset", refused_once)
    node = await cluster.start()
    await until(lambda: (topic, 0) in node.partitions.by_key)
    assert dropped == [NAME, NAME]
    assert checkpoint(cluster).get((NAME, 0), Entry(0)).offset <= 10


def refuse_cleaned_offsets(cluster: StorageCluster, disk: HeldDisk) -> None:
    """Makes the disk fail whoever writes cleaned offsets."""
    disk.fail_syncs_below = f"{cluster.config.directories[0]}/{CLEANED_OFFSETS}"
    disk.fail_syncs = errno.EIO


async def test_a_directory_that_vanished_with_its_topic_is_no_loss_of_the_next_one(cluster: StorageCluster) -> None:
    former = await cluster.topic(NAME)
    assert (await cluster.append(former, batch(b"gone"))).error == 0
    await cluster.stop()
    assert checkpoint(cluster, HIGH_WATERMARKS) == {(NAME, 0): Entry(1, former)}
    shutil.rmtree(directory(cluster, NAME))
    await cluster.write(keys.partition(former, 0), None)
    topic = b"its next topic".ljust(16, b"\0")
    await cluster.state(topic, epoch=0, incarnation=cluster.incarnation + 1)
    await cluster.write(keys.topic(NAME), encode(Topic(NAME, topic.hex(), 1)))
    await cluster.start()
    await cluster.leads(topic)
    assert (await cluster.append(topic, batch(b"new"))).base_offset == 0


async def test_the_directory_of_a_deleted_partition_stays_until_the_checkpoints_have_forgotten_it(
    cluster: StorageCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It alone tells that an entry is old: a replica that comes back has the same topic id."""
    topic = await cluster.topic(NAME)
    assert (await cluster.append(topic, batch(b"gone"))).error == 0
    await until(lambda: checkpoint(cluster, HIGH_WATERMARKS) == {(NAME, 0): Entry(1, topic)})
    asked = []

    async def refuse(self: Checkpoints, *what: object) -> bool:
        asked.append(what)
        return False

    with monkeypatch.context() as full:
        full.setattr(Checkpoints, "_replace", refuse)
        await delete(cluster, topic)
        await until(lambda: len(asked) > 3)
        aside = Path(cluster.config.directories[0]) / f"{NAME}-0.{topic.hex()}-delete"
        assert not list(aside.iterdir())
        await cluster.stop()
    assert (NAME, 0) in checkpoint(cluster, HIGH_WATERMARKS)
    await cluster.start()
    await until(lambda: not aside.exists())
    assert (NAME, 0) not in checkpoint(cluster, HIGH_WATERMARKS)


async def test_a_follower_that_was_away_for_longer_than_tombstones_shows_a_deleted_key_again_as_kafkas_does(
    cluster: StorageCluster, leader: FakeLeader
) -> None:
    """docs/storage.md names it. The leader has compacted the tombstone away, so the follower never hears of it."""
    topic, log = await followed(cluster, leader, NAME, epoch=0)
    log.append(raw=bytes(build_batch([Record(b"secret", b"SECRET", 1)])))
    leader.changed()
    await caught_up(cluster, topic, log)
    log.append(raw=bytes(build_batch([Record(b"other", b"v", 2)])), at=5)  # the tombstone was at 3
    leader.changed()
    await caught_up(cluster, topic, log)
    await cluster.state(topic, epoch=1)
    await cluster.leads(topic, epoch=1)
    assert secrets(cluster, topic) == [b"SECRET"]
