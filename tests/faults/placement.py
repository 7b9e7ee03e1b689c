"""Where partitions live, as clients are told. Files are there only once the storage node has come to it."""

from tests.clients.admin import REQUEST_S, Admin


def leaders(admin: Admin, topic: str) -> dict[int, int]:
    """Storage node by partition."""
    partitions = admin.client.list_topics(timeout=REQUEST_S).topics[topic].partitions
    return {index: partition.leader for index, partition in sorted(partitions.items())}
