"""What one storage node holds on its disks of the cluster's metadata: the facts from which a lost store is rebuilt."""

from typing import NamedTuple

from libs.cluster.saved_metadata import SavedMetadata
from libs.lean_dataclass import dataclass

UNKNOWN_TOPIC = ""
"""The topic id of a partition whose `partition.metadata` is missing or damaged."""


class HeldPartition(NamedTuple):
    """A partition's directory. `latest_epoch`: the newest leader epoch of its checkpoint. `moves`: how often it moved between log
    directories. `written_ms`: when its identity was written, by the node's clock."""

    topic: str
    partition: int
    topic_id: str
    directory_id: str
    latest_epoch: int = -1
    moves: int = 0
    written_ms: int = 0


class DeletedPartition(NamedTuple):
    """A directory that is about to be removed."""

    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class NodeHoldings:
    """The holdings of a node. Ids are hex digits, and those of clusters as in `meta.properties`."""

    node_id: int
    cluster_id: str
    directories: tuple[str, ...]
    """The ids of the log directories that could be read."""
    partitions: tuple[HeldPartition, ...] = ()
    deleted: tuple[DeletedPartition, ...] = ()
    highest_producer_id: int = -1
    saved_image: str = ""
    """The content of the node's copy of the cluster image; "" if it has none."""
    problems: tuple[str, ...] = ()
    """What could not be read, and why."""
    highest_owner_epoch: int = -1
    """The highest owner epoch in markers of transactions."""


@dataclass(frozen=True, slots=True)
class Source:
    """Saved metadata, and where it comes from in words."""

    name: str
    saved: SavedMetadata
