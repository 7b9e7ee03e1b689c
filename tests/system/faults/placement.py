"""The leaders and replicas of partitions, as clients see them. Files appear once the storage node has made them."""

from tests.compat.clients.admin import REQUEST_S, Admin
from tests.support.cluster_harness import LocalCluster


def leaders(admin: Admin, topic: str) -> dict[int, int]:
    """Storage node by partition."""
    partitions = admin.client.list_topics(timeout=REQUEST_S).topics[topic].partitions
    return {index: partition.leader for index, partition in sorted(partitions.items())}


def elected(cluster: LocalCluster) -> str:
    names = [name for name in cluster.names if name.startswith("controller")]
    return next(name for name in names if "activecontrollercount 1.0" in cluster.admin(name, "/metrics"))
