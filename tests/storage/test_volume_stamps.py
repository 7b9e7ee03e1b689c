"""Log directories whose volume was restored from an older snapshot: the node says so when it registers."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.store import Put
from tests.storage.cluster import StorageCluster, batch
from tests.support.polling import until


@pytest.fixture
async def stamping(cluster: StorageCluster) -> StorageCluster:
    await cluster.stop()
    cluster.config = replace(cluster.config, volume_stamp_s=0.05)
    await start_and_stamp(cluster)
    return cluster


async def start_and_stamp(cluster: StorageCluster) -> None:
    """Starts a node of which no directory went back. Returns when the stamp that a start asks for is in the store."""
    before = own_stamp(cluster)
    await cluster.start()
    await until_stamped(cluster, before)


async def until_stamped(cluster: StorageCluster, before: int) -> None:
    async def risen() -> bool:
        return await stamp(cluster) > before

    await until(risen)


def volume(cluster: StorageCluster) -> Path:
    return Path(cluster.config.directories[0])


def directory_id(cluster: StorageCluster) -> str:
    assert cluster.node is not None
    return cluster.node.opened.disks.directory_ids[0]


def own_stamp(cluster: StorageCluster) -> int:
    file = volume(cluster) / "volume-stamp"
    return int(file.read_text(encoding="utf-8")) if file.exists() else 0


async def stamp(cluster: StorageCluster) -> int:
    stored = await cluster.store.get(keys.volume_stamp(directory_id(cluster)))
    return int(stored.value) if stored is not None else 0


async def went_back(cluster: StorageCluster) -> tuple[str, ...]:
    member = await cluster.member()
    assert member is not None
    return member.went_back


async def appended_and_stamped(cluster: StorageCluster, topic: bytes) -> None:
    before = await stamp(cluster)
    assert (await cluster.append(topic, batch(b"x"))).error == 0
    await until_stamped(cluster, before)


def roll_back(cluster: StorageCluster, snapshot: Path) -> None:
    shutil.rmtree(volume(cluster))
    shutil.copytree(snapshot, volume(cluster))


async def test_a_volume_that_went_back_within_one_life_is_told_until_no_partition_counts_on_it(
    stamping: StorageCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Snapshots are taken while a node runs: incarnations alone say nothing."""
    cluster, snapshot = stamping, tmp_path / "snapshot"
    topic = await cluster.topic("rolled-back", epoch=1)
    await appended_and_stamped(cluster, topic)
    shutil.copytree(volume(cluster), snapshot)
    await appended_and_stamped(cluster, topic)
    await cluster.stop()
    roll_back(cluster, snapshot)
    for _ in range(2):
        await cluster.start()
        assert await went_back(cluster) == (directory_id(cluster),)
        assert "log directory is an older copy of itself" in caplog.text
        await cluster.stop()
    await cluster.start()
    await cluster.state(topic, epoch=2)  # elected after a survey: nobody counts on its former life any more
    await cluster.leads(topic, epoch=2)
    await appended_and_stamped(cluster, topic)
    await cluster.stop()
    await cluster.start()
    assert await went_back(cluster) == ()


async def test_a_volume_that_went_back_to_an_earlier_life_is_told_though_nothing_was_written_since(
    stamping: StorageCluster, tmp_path: Path
) -> None:
    cluster, snapshot = stamping, tmp_path / "snapshot"
    topic = await cluster.topic("idle", epoch=1)
    await appended_and_stamped(cluster, topic)
    await cluster.stop()
    shutil.copytree(volume(cluster), snapshot)
    await start_and_stamp(cluster)
    await cluster.stop()
    roll_back(cluster, snapshot)
    await cluster.start()
    assert await went_back(cluster) == (directory_id(cluster),)


async def test_restarts_and_a_store_that_is_behind_are_no_way_back(stamping: StorageCluster) -> None:
    cluster = stamping
    topic = await cluster.topic("restarted", epoch=1)
    await appended_and_stamped(cluster, topic)
    for _ in range(2):
        await cluster.stop()
        await start_and_stamp(cluster)
        assert await went_back(cluster) == ()
    await cluster.stop()
    own = own_stamp(cluster)
    await start_and_stamp(cluster)
    await cluster.store.txn([], [Put(keys.volume_stamp(directory_id(cluster)), b"1")])
    await cluster.stop()
    await cluster.start()
    assert await went_back(cluster) == ()
    assert own >= 2
