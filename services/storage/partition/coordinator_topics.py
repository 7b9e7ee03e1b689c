"""The topics that a coordinator may write and read here, by its role. docs/security.md tells of them.

The table of callers (`libs/rpc/contracts/callers.py`) is by method. Coordinators append only as owners of their own topic's
shards, and no coordinator reads the topic of transactions but its own. Group coordinators read other topics for lags.
"""

from collections.abc import Iterable

from libs.cluster.shard_owners import OWNED_BY
from libs.cluster.topic_names import TRANSACTION_TOPIC
from libs.roles import GROUP_COORDINATOR, TRANSACTION_COORDINATOR
from libs.rpc.messages.errors import Denied
from libs.rpc.server.call import Peer
from services.storage.partition.partition import Key
from services.storage.partition.partition_table import PartitionTable

COORDINATORS = frozenset(OWNED_BY.values())


def require_own(peer: Peer, method: str, partitions: PartitionTable, keys: Iterable[Key]) -> None:
    """Raises Denied unless all topics that are known are those whose shards this role owns."""
    for topic in _names(partitions, keys):
        if OWNED_BY.get(topic) != peer.role:
            raise Denied(f"{peer.role} {peer.node_id} may not call {method} for {topic}")


def require_readable(peer: Peer, method: str, partitions: PartitionTable, keys: Iterable[Key]) -> None:
    """Raises Denied for a topic that a coordinator does not read."""
    if peer.role == GROUP_COORDINATOR:
        for topic in _names(partitions, keys):
            if topic == TRANSACTION_TOPIC:
                raise Denied(f"{peer.role} {peer.node_id} may not call {method} for {topic}")
    elif peer.role == TRANSACTION_COORDINATOR:
        require_own(peer, method, partitions, keys)


def _names(partitions: PartitionTable, keys: Iterable[Key]) -> Iterable[str]:
    """The names of the topics that exist here, or in the image. Requests for others fail anyway."""
    for key in keys:
        partition = partitions.by_key.get(key)
        topic = partition.topic if partition is not None else None
        if topic is None and (known := partitions.image.topics_by_id.get(key[0])) is not None:
            topic = known.name
        if topic is not None:
            yield topic
