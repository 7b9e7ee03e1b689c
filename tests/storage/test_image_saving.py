"""The copy of the cluster image in a storage node's data directory."""

import errno
from pathlib import Path

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import GATEWAY, ClientQuotas, Member, QuotaEntity
from libs.cluster.saved_metadata import IMAGE_FILE, SavedMetadata, parse_file
from tests.storage.cluster import NODE_ID, StorageCluster
from tests.storage.held_disk import HeldDisk
from tests.support.polling import until


def file(cluster: StorageCluster) -> Path:
    return Path(cluster.config.data_dir) / IMAGE_FILE


def saved(cluster: StorageCluster) -> SavedMetadata | None:
    """What is in the file; at every moment it is whole."""
    return parse_file(file(cluster).read_bytes()) if file(cluster).exists() else None


def image(cluster: StorageCluster) -> ClusterImage:
    found = saved(cluster)
    return found.image if found is not None else ClusterImage()


async def test_topics_configs_and_replicas_are_in_the_copy_soon_after_they_changed(cluster: StorageCluster) -> None:
    topic_id = await cluster.topic("t", partitions=3, retention_ms="77")
    await until(lambda: "t" in image(cluster).topics)
    copy = image(cluster)
    assert copy.cluster_id == "test-cluster"
    assert copy.overrides("topic", "t") == {"retention.ms": "77"}
    states = [copy.partition(topic_id, index) for index in range(3)]
    assert [[replica.node_id for replica in state.replicas] for state in states if state is not None] == [[NODE_ID]] * 3
    await cluster.write(keys.config("topic", "t"), None)
    await until(lambda: image(cluster).overrides("topic", "t") == {})


async def test_client_quotas_are_in_the_copy_soon_after_they_changed(cluster: StorageCluster) -> None:
    key = keys.client_quotas(QuotaEntity("u", ""))
    for rate in (1.0, 2.0):
        await cluster.write(key, encode(ClientQuotas({"producer_byte_rate": rate})))
        await until(lambda: image(cluster).client_quotas == {("u", "", None): {"producer_byte_rate": rate}})  # noqa: B023


async def test_the_copy_is_made_by_a_stop_that_comes_before_its_time(cluster: StorageCluster) -> None:
    await until(lambda: saved(cluster) is not None)
    await cluster.topic("t")
    await cluster.stop()
    assert "t" in image(cluster).topics


async def test_members_that_come_and_go_make_no_copy(cluster: StorageCluster) -> None:
    await cluster.topic("t")
    await until(lambda: "t" in image(cluster).topics)
    before = identity(cluster)
    for number in range(3):
        await cluster.write(keys.member(GATEWAY, 7), encode(Member(GATEWAY, 7, number, "host")))
        await cluster.write(keys.member(GATEWAY, 7), None)
    await cluster.stop()
    assert identity(cluster) == before


def identity(cluster: StorageCluster) -> tuple[int, int]:
    """Another one for each copy."""
    status = file(cluster).stat()
    return status.st_ino, status.st_mtime_ns


async def test_a_disk_that_refuses_the_copy_costs_the_copy_and_nothing_else(cluster: StorageCluster, disk: HeldDisk) -> None:
    await until(lambda: saved(cluster) is not None)
    former = file(cluster).read_bytes()
    disk.fail_syncs, disk.fail_syncs_below = errno.ENOSPC, str(file(cluster))
    await cluster.topic("t")
    await until(lambda: disk.syncs_refused > 0)
    assert file(cluster).read_bytes() == former
    assert cluster.node is not None
    assert cluster.node.ready() == (True, "")
    disk.fail_syncs = None
    await cluster.stop()
