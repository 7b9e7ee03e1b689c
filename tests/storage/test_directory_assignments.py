"""Moves between log directories are announced before they are done: no state ever names a directory that its log has left."""

from dataclasses import replace

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import STORAGE, InSync, Member, PartitionState, Replica, Topic
from libs.wire.errors import ErrorCode
from services.controller.core.model.replica_health import ReplicaHealth, health_of, live_nodes
from services.storage.core.replication.leadership import assigned_directory
from services.storage.disks.disks import Disk
from services.storage.moving.move import Move
from services.storage.moving.switching import Switching
from tests.storage.cluster import NODE_ID, StorageCluster, partition_of
from tests.storage.fake_follower import image
from tests.storage.naming_controller import NamingController
from tests.storage.two_directories import (
    arrived,
    both,
    controller,
    described,
    disks,
    give_back,
    home,
    move,
    moves,
    names,
    numbers,
    other,
    stored,
    values,
)
from tests.support.polling import until

__all__ = ["both", "controller"]


@pytest.fixture
def unswitched(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Moves are announced, and do not get further until this is undone."""

    async def not_now(self: Switching, move: Move) -> bool:
        return False

    monkeypatch.setattr(Switching, "switch", not_now)
    return monkeypatch


def named(cluster: StorageCluster, topic: bytes) -> str:
    state = image(cluster).partition(topic, 0)
    assert state is not None
    return assigned_directory(state, NODE_ID)


async def filled(cluster: StorageCluster, count: int = 20) -> bytes:
    topic = await cluster.topic("t")
    for number in range(count):
        assert (await cluster.append(topic, values(number))).error == 0
    await until(lambda: named(cluster, topic) == home(cluster, topic).directory_id)
    return topic


async def announced(cluster: StorageCluster, topic: bytes) -> tuple[Disk, Disk]:
    """A replica's present directory, and the one that the state names."""
    source, target = home(cluster, topic), other(cluster, topic)
    assert await move(cluster, topic, target.path) == 0
    await until(lambda: named(cluster, topic) == target.directory_id)
    return source, target


async def started(cluster: StorageCluster, topic: bytes, directory: str, epoch: int = 1) -> None:
    """Anew; it is elected, and the state names that directory."""
    await cluster.start()
    await cluster.state(topic, epoch=epoch, directory=directory)


async def test_a_move_waits_for_a_controller_and_the_log_is_served_from_where_it_is(
    both: StorageCluster, controller: NamingController
) -> None:
    topic = await filled(both)
    source, target = home(both, topic), other(both, topic)
    controller.go_away()
    asked = len(controller.requests)
    assert await move(both, topic, target.path) == 0
    await until(lambda: len(controller.requests) > asked)
    for number in range(20, 40):
        assert (await both.append(topic, values(number))).error == 0
    await until(lambda: moves(both).in_progress()[0].lag == 0)
    assert home(both, topic) is source
    found = await described(both)
    assert found[source.path] == [("t-0", 0, False)]
    assert found[target.path] == [("t-0", 0, True)]
    controller.come_back()
    await arrived(both, topic, target)
    assert named(both, topic) == target.directory_id
    assert await stored(both, topic) == numbers(range(40))


async def test_a_replica_that_moved_is_displaced_when_its_new_disk_is_lost(both: StorageCluster) -> None:
    topic = await filled(both)
    source, target = home(both, topic), other(both, topic)
    assert await move(both, topic, target.path) == 0
    await arrived(both, topic, target)
    state = image(both).partition(topic, 0)
    assert state is not None
    live = live_nodes({NODE_ID: Member(STORAGE, NODE_ID, both.incarnation + 1, "", log_dirs=(source.directory_id,))})
    assert health_of(state, state.isr[0], live, synced=True) is ReplicaHealth.DISPLACED


async def test_a_node_that_stops_between_announcement_and_move_goes_on_with_the_log_that_it_has(
    both: StorageCluster, unswitched: pytest.MonkeyPatch
) -> None:
    topic = await filled(both)
    source, target = await announced(both, topic)
    assert (await both.append(topic, values(20))).error == 0
    await both.stop()
    await started(both, topic, target.directory_id)
    await both.leads(topic, 0, 1)
    assert home(both, topic).path == source.path
    assert await stored(both, topic) == numbers(range(21))
    unswitched.undo()
    await until(lambda: home(both, topic).path == target.path and named(both, topic) == target.directory_id)
    assert await stored(both, topic) == numbers(range(21))


async def test_a_replica_whose_disk_is_lost_when_it_is_announced_elsewhere_does_not_begin_anew_there(
    both: StorageCluster, controller: NamingController, unswitched: pytest.MonkeyPatch
) -> None:
    topic = await filled(both)
    source, target = await announced(both, topic)
    await both.stop()
    everything = both.config
    both.config = replace(both.config, log_dirs=(target.path,))
    for epoch in (1, 2):
        await started(both, topic, target.directory_id, epoch)
        await until(lambda: (topic, 0) in controller.withdrawn)
        assert (await both.append(topic, values(99))).error == ErrorCode.KAFKA_STORAGE_ERROR
        assert [name.endswith("-future") for name in names(target)] == [True]
        controller.withdrawn.clear()
        await both.stop()
    both.config = everything
    await started(both, topic, target.directory_id, 3)
    await both.leads(topic, 0, 3)
    assert await stored(both, topic) == numbers(range(20))
    assert home(both, topic).path == source.path


async def test_a_replica_that_nobody_counts_on_begins_anew_where_it_was_going(
    both: StorageCluster, unswitched: pytest.MonkeyPatch
) -> None:
    topic = await filled(both)
    _, target = await announced(both, topic)
    await both.stop()
    both.config = replace(both.config, log_dirs=(target.path,))
    state = PartitionState((Replica(NODE_ID, target.directory_id), Replica(2, "")), 2, 1, 1, 9, (InSync(2, 1),))
    await both.write(keys.partition(topic, 0), encode(state))
    await both.start()
    assert home(both, topic).path == target.path
    await until(lambda: names(target) == ["t-0"])


async def test_a_move_that_ends_after_its_announcement_is_taken_back_before_the_copy_goes(
    both: StorageCluster, controller: NamingController, unswitched: pytest.MonkeyPatch
) -> None:
    topic = await filled(both)
    source, target = await announced(both, topic)
    controller.go_away()
    asked = len(controller.requests)
    assert await move(both, topic, source.path) == 0
    await until(lambda: len(controller.requests) > asked)
    assert [name.endswith("-future") for name in names(target)] == [True]
    assert (await described(both))[target.path] == []
    controller.come_back()
    await until(lambda: named(both, topic) == source.directory_id)
    await until(lambda: names(target) == [])
    unswitched.undo()
    assert await move(both, topic, target.path) == 0
    await arrived(both, topic, target)


async def test_a_move_that_is_asked_for_again_at_once_goes_on(both: StorageCluster, unswitched: pytest.MonkeyPatch) -> None:
    topic = await filled(both)
    source, target = await announced(both, topic)
    found = partition_of(both, topic)
    moves(both).cancel(found)
    moves(both).start(found, source, target)
    unswitched.undo()
    await arrived(both, topic, target)
    assert await stored(both, topic) == numbers(range(20))


async def test_a_target_that_fails_when_it_is_announced_is_taken_back_though_it_is_gone(
    both: StorageCluster, unswitched: pytest.MonkeyPatch
) -> None:
    topic = await filled(both)
    source, target = await announced(both, topic)
    target.sync.fail(OSError("broken"))
    await until(lambda: image(both).members(STORAGE)[NODE_ID].log_dirs == (source.directory_id,))
    await until(lambda: named(both, topic) == source.directory_id)
    assert (await both.append(topic, values(20))).error == 0
    assert await stored(both, topic) == numbers(range(21))


async def test_a_source_that_fails_when_the_target_is_announced_is_withdrawn_and_the_copy_stays(
    both: StorageCluster, controller: NamingController, unswitched: pytest.MonkeyPatch
) -> None:
    topic = await filled(both)
    source, target = await announced(both, topic)
    source.sync.fail(OSError("broken"))
    await until(lambda: (topic, 0) in controller.withdrawn)
    await until(lambda: moves(both).in_progress() == [])
    await both.stop()
    assert [name.endswith("-future") for name in names(target)] == [True]
    unswitched.undo()
    await started(both, topic, target.directory_id)
    assert (await both.append(topic, values(20))).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert "t-0" not in names(target)
    await both.stop()
    give_back(source.path)
    await started(both, topic, target.directory_id, 2)
    await both.leads(topic, 0, 2)
    assert await stored(both, topic) == numbers(range(20))


async def test_a_state_that_names_where_it_no_longer_is_is_corrected(both: StorageCluster) -> None:
    topic = await filled(both)
    source, target = home(both, topic), other(both, topic)
    assert await move(both, topic, target.path) == 0
    await arrived(both, topic, target)
    await both.state(topic, epoch=1, directory=source.directory_id)  # a report of old that comes late
    await until(lambda: image(both).partition(topic, 0).leader_epoch == 1)  # type: ignore[union-attr]
    await until(lambda: named(both, topic) == target.directory_id)


@pytest.mark.parametrize("which", [0, 1])
async def test_a_directory_that_was_asked_for_goes_before_the_one_that_the_controller_chose(
    both: StorageCluster, controller: NamingController, which: int
) -> None:
    topic = (77).to_bytes(16, "big")
    there = PartitionState((Replica(2, "x"),), 2, 1, 0, 0, (InSync(2, 1),))
    await both.write(keys.partition(topic, 0), encode(there))
    await both.write(keys.topic("t"), encode(Topic("t", topic.hex(), 1)))
    await until(lambda: "t" in image(both).topics)
    target, chosen = disks(both)[which], disks(both)[1 - which]
    controller.go_away()
    assert await move(both, topic, target.path) == ErrorCode.REPLICA_NOT_AVAILABLE
    coming = replace(
        there, replicas=(*there.replicas, Replica(NODE_ID, chosen.directory_id)), adding=(NODE_ID,), partition_epoch=1
    )
    await both.write(keys.partition(topic, 0), encode(coming))
    await until(lambda: controller.requests)
    assert [names(disk) for disk in (target, chosen)] == [[], []]
    controller.come_back()
    assert both.node is not None
    open_logs = both.node.opened.open_logs
    await until(lambda: (topic, 0) in open_logs)
    assert home(both, topic) is target
    assert named(both, topic) == target.directory_id
