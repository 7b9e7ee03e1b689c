"""The holdings of all storage nodes, by topic and partition."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from libs.cluster.image import ClusterImage
from libs.cluster.records import Replica
from services.controller.core.recovery.node_holdings import UNKNOWN_TOPIC, HeldPartition, NodeHoldings


class HoldingsByTopic:
    """What nodes hold. A directory without an id counts for the topic of its name in `image`."""

    def __init__(self, nodes: Sequence[NodeHoldings], image: ClusterImage) -> None:
        self._directories = {node.node_id: frozenset(node.directories) for node in nodes}
        self._deleted = {bytes.fromhex(deleted.topic_id) for node in nodes for deleted in node.deleted}
        self._names: dict[bytes, str] = {}
        self._holders: dict[bytes, dict[int, dict[int, HeldPartition]]] = {}
        for node in nodes:
            for held in node.partitions:
                topic = image.topics.get(held.topic) if held.topic_id == UNKNOWN_TOPIC else None
                text = topic.topic_id if topic is not None else held.topic_id
                if text != UNKNOWN_TOPIC:
                    self._add(bytes.fromhex(text), node.node_id, held)

    def _add(self, topic_id: bytes, node_id: int, held: HeldPartition) -> None:
        self._names[topic_id] = held.topic
        holders = self._holders.setdefault(topic_id, {}).setdefault(held.partition, {})
        other = holders.get(node_id)
        # Of a log that moved between directories, the one with fewer moves is what is left of it.
        if other is None or held.moves > other.moves:
            holders[node_id] = held

    def topics(self) -> Iterator[tuple[bytes, str]]:
        """Each topic id that is held, with its name."""
        yield from sorted(self._names.items())

    def indexes(self, topic_id: bytes) -> Collection[int]:
        """The partitions of a topic that somebody holds."""
        return self._holders.get(topic_id, {}).keys()

    def holders(self, topic_id: bytes, index: int) -> Mapping[int, HeldPartition]:
        """By node id."""
        return self._holders.get(topic_id, {}).get(index, {})

    def nodes_of(self, topic_id: bytes) -> set[int]:
        """The nodes that hold any partition of a topic."""
        return {node_id for holders in self._holders.get(topic_id, {}).values() for node_id in holders}

    def written_ms(self, topic_id: bytes) -> int:
        """When the newest of a topic's directories was made; -1 if there is none."""
        holders = self._holders.get(topic_id, {}).values()
        return max((held.written_ms for by_node in holders for held in by_node.values()), default=-1)

    def is_deleted(self, topic_id: bytes) -> bool:
        """Whether a node was about to remove a partition of the topic. It does so too where a replica has moved away."""
        return topic_id in self._deleted

    def are_read(self, nodes: Iterable[int]) -> bool:
        return all(node_id in self._directories for node_id in nodes)

    def is_lacking(self, replica: Replica) -> bool:
        """Whether the directory was read in which the replica would be. A directory that failed may hold it all the same."""
        directories = self._directories.get(replica.node_id)
        return directories is not None and (not replica.log_dir_id or replica.log_dir_id in directories)
