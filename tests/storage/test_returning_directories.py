"""A log directory comes back that was lost: meanwhile its replicas were made anew in another."""

from pathlib import Path

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import InSync, PartitionState, Replica
from tests.storage.cluster import NODE_ID, StorageCluster
from tests.storage.two_directories import arrived, both, controller, home, move, names, other, values
from tests.support.polling import until

__all__ = ["both", "controller"]

ELSEWHERE = NODE_ID + 1
"""Another node, which has all. Nobody runs there."""


async def begin_anew(cluster: StorageCluster, topic: bytes, directory: str) -> None:
    """As the controller writes it, when a directory is gone and another node leads."""
    assert cluster.node is not None
    known = cluster.node.image_follower.image.partition(topic, 0)
    assert known is not None
    replicas = (Replica(NODE_ID, directory), Replica(ELSEWHERE, "e"))
    state = PartitionState(replicas, ELSEWHERE, 1, 5, known.partition_epoch + 1, (InSync(ELSEWHERE, 1),))
    await cluster.write(keys.partition(topic, 0), encode(state))


def put(directory: str, path: str) -> None:
    Path(directory).rename(path)


def opened(cluster: StorageCluster, topic: bytes) -> bool:
    assert cluster.node is not None
    return cluster.node.opened.open_logs.get((topic, 0)) is not None


async def test_a_replica_that_was_begun_anew_goes_before_one_that_had_moved_often(both: StorageCluster, tmp_path: Path) -> None:
    """It may be the only one that has what was acknowledged last."""
    topic = await both.topic("t")
    await both.append(topic, values(0))
    for _ in range(3):
        target = other(both, topic)
        assert await move(both, topic, target.path) == 0
        await arrived(both, topic, target)
        await until(lambda: names(other(both, topic)) == [])
    lost, left = home(both, topic), other(both, topic)
    await both.stop()
    put(lost.path, f"{tmp_path}/away")
    await both.start()
    await begin_anew(both, topic, left.directory_id)
    await until(lambda: opened(both, topic))
    assert names(left) == ["t-0"]
    await both.stop()
    put(lost.path, f"{tmp_path}/unused")
    put(f"{tmp_path}/away", lost.path)
    await both.start()
    assert home(both, topic).path == left.path
    assert [name.rpartition("-")[2] for name in names(lost)] == ["stray"]
