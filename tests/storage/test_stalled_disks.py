"""A sync that hangs: whoever depends on it stands down."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from libs.wire.errors import ErrorCode
from tests.storage.cluster import StorageCluster, appended, batch, partition_of, storage_cluster
from tests.storage.fake_controller import FakeController
from tests.storage.fake_follower import replicated_state, replicated_topic, show
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until


@pytest.fixture
async def cluster(tmp_path: Path, short_dir: Path, disk: HeldDisk) -> AsyncIterator[StorageCluster]:
    async with storage_cluster(tmp_path, short_dir, disk) as running:
        await running.stop()
        running.config = replace(running.config, sync_hang_s=2.0)  # a sync that nobody holds may take a while, too
        await running.start()
        yield running
        disk.release()


async def test_a_leader_whose_sync_hangs_asks_to_be_replaced_where_another_is_in_sync(
    cluster: StorageCluster, controller: FakeController, disk: HeldDisk
) -> None:
    shared = await replicated_topic(cluster, "shared", [1, 2])
    alone = await replicated_topic(cluster, "alone", [1])
    disk.hold()
    waiting = cluster.send([(shared, 0, batch(b"a"))])
    await until(lambda: controller.withdrawn)
    assert set(controller.withdrawn) == {(shared, 0)}
    assert (await cluster.append(alone, batch(b"b"))).error == ErrorCode.KAFKA_STORAGE_ERROR
    await show(
        cluster, shared, replicated_state(cluster, [2], partition_epoch=1), leader=2, leader_incarnation=10, leader_epoch=1
    )
    assert appended(await waiting)[0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    disk.release()

    async def serves_again() -> bool:
        return (await cluster.append(alone, batch(b"b"))).error == 0

    await until(serves_again)
    assert set(controller.withdrawn) == {(shared, 0)}


async def test_a_follower_whose_sync_hangs_copies_nothing_until_it_returns(
    cluster: StorageCluster, controller: FakeController, disk: HeldDisk
) -> None:
    own = await replicated_topic(cluster, "own", [1])
    topic = await replicated_topic(cluster, "followed", [1, 2])
    await show(cluster, topic, replicated_state(cluster, [1, 2]), leader=2, leader_incarnation=10, leader_epoch=1)
    assert cluster.node is not None
    following = cluster.node.opened.fetchers
    assert following is not None
    assert partition_of(cluster, topic) in following.followed
    disk.hold()
    await cluster.append(own, batch(b"a"), acks=1)
    await until(lambda: (topic, 0) in controller.withdrawn)
    assert partition_of(cluster, topic) not in following.followed
    await show(cluster, topic, replicated_state(cluster, [2]), leader=2, leader_incarnation=10, leader_epoch=2, partition_epoch=1)
    assert partition_of(cluster, topic) not in following.followed
    disk.release()
    await until(lambda: partition_of(cluster, topic) in following.followed)
