"""The metadata of a cluster whose store is lost, rebuilt from what its storage nodes hold.

The newest saved metadata is the base, and the disks complete it. A partition that no saved metadata knows is newer than all of
them, and is taken in. One that an older file knows and the newest does not is gone, and stays away. Rather too many replicas are
asked for their logs than too few: the survey before each election finds out which of them are behind.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import ConfigOverrides, InSync, NodeRecord, PartitionState, Replica, Topic
from libs.cluster.saved_metadata import is_newer
from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.lean_dataclass import dataclass
from services.controller.core.elections.doubt import in_doubt
from services.controller.core.elections.leader_election import NO_INCARNATION, NO_LEADER
from services.controller.core.recovery.holdings_by_topic import HoldingsByTopic
from services.controller.core.recovery.node_holdings import HeldPartition, NodeHoldings, Source
from services.controller.core.recovery.restored_metadata import Values, restart_of_counters
from services.controller.core.topics.internal_topic_configs import kept_synced
from services.controller.core.topics.internal_topics import PREFIXES, internal_topic_configs

UNKNOWN_OWNER_EPOCH: Final = 1_000_000
"""Higher than that of any owner before a first rebuild. Markers of transactions have it in the logs of all topics, and leaders
refuse a marker with a lower one. A second rebuild finds there what the owners since the first one wrote."""
REBUILT_ANEW: Final = (keys.TOPICS, keys.PARTITIONS, keys.NODES, keys.CONFIGS + "topic/")


class CannotRebuild(Exception):
    """What was found is not of one cluster, or is nothing at all."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The content of the new store. `base`: where most of it comes from, None if no saved metadata was found. `notes` say what
    was added, what stays away, and what could not be known."""

    values: Values
    base: Source | None
    notes: tuple[str, ...]

    def topics(self) -> int:
        return sum(key.startswith(keys.TOPICS) for key in self.values)

    def partitions(self) -> int:
        return sum(key.startswith(keys.PARTITIONS) for key in self.values)


def rebuild(nodes: Sequence[NodeHoldings], sources: Sequence[Source], *, feature_level: int, now_ms: int) -> Rebuilt:
    """Raises CannotRebuild. `feature_level` is that of a cluster without saved metadata."""
    cluster_id = _one_cluster(nodes, sources)
    base = reduce(lambda a, b: b if is_newer(b.saved, a.saved) else a, sources) if sources else None
    image = base.saved.image if base is not None else ClusterImage()
    older = [source.saved.image for source in sources if source is not base]
    owner_epoch = max([node.highest_owner_epoch for node in nodes], default=-1)
    topics = _Topics(image, older, HoldingsByTopic(nodes, image), owner_epoch)
    values = {item.key: item.value for item in base.saved.items} if base is not None else {}
    values = {key: value for key, value in values.items() if not key.startswith(REBUILT_ANEW)}
    values.setdefault(keys.FEATURE_LEVEL, encode(feature_level))
    values[keys.CLUSTER_ID] = encode(cluster_id)
    values |= topics.values() | _node_records(nodes, image)
    producer_ids = [source.saved.image.next_producer_id for source in sources] + [n.highest_producer_id + 1 for n in nodes]
    values |= restart_of_counters(image.history, max(producer_ids, default=0), now_ms)
    notes = [*_problems(nodes, image, base), *topics.notes]
    return Rebuilt(values, base, tuple(notes))


def _one_cluster(nodes: Sequence[NodeHoldings], sources: Sequence[Source]) -> str:
    found = {node.cluster_id: f"node {node.node_id}" for node in nodes if node.cluster_id}
    found |= {source.saved.image.cluster_id: source.name for source in sources}
    if len(found) > 1:
        owners = ", ".join(f"{name}: {cluster_id}" for cluster_id, name in sorted(found.items()))
        raise CannotRebuild(f"these belong to several clusters ({owners}): give those of one cluster")
    if not found:
        raise CannotRebuild("no storage node's data was found")
    return next(iter(found))


def _node_records(nodes: Sequence[NodeHoldings], image: ClusterImage) -> Values:
    records = dict(image.nodes)
    for node in nodes:
        known = records.get(node.node_id, NodeRecord(node.node_id))
        records[node.node_id] = replace(known, log_dirs=node.directories or known.log_dirs)
    return {keys.node(node_id): encode(record) for node_id, record in records.items()}


def _problems(nodes: Sequence[NodeHoldings], image: ClusterImage, base: Source | None) -> Iterator[str]:
    if base is None:
        yield (
            "no saved metadata was found: configs of topics, brokers and groups, racks, and levels of features are the defaults, "
            "and there are no client quotas and no ACLs"
        )
    for node in nodes:
        for problem in node.problems:
            yield f"node {node.node_id}: {problem}"
    for node_id in sorted(image.nodes.keys() - {node.node_id for node in nodes}):
        yield f"node {node_id} was not read: partitions of which it is a replica wait until it is back"


class _Topics:
    """The topics, with their partitions and configs."""

    def __init__(
        self, image: ClusterImage, older: Sequence[ClusterImage], held: HoldingsByTopic, highest_owner_epoch: int
    ) -> None:
        self._image = image
        self._highest_owner_epoch = highest_owner_epoch
        self._held = held
        self._once_known = {topic_id for former in older for topic_id in former.topics_by_id}
        self._once_replicas = {
            (topic_id, index, replica.node_id)
            for former in older
            for topic_id, index, state in former.states()
            for replica in state.replicas
        }
        self.notes: list[str] = []

    def values(self) -> Values:
        values: Values = {}
        for name, topic in sorted(self._chosen().items()):
            topic_id = bytes.fromhex(topic.topic_id)
            topic = replace(topic, partitions=max([topic.partitions, *[index + 1 for index in self._held.indexes(topic_id)]]))
            for index in range(topic.partitions):
                values[keys.partition(topic_id, index)] = encode(self._state(topic, topic_id, index))
            if configs := self._configs(name, topic_id):
                values[keys.config("topic", name)] = encode(ConfigOverrides(configs))
            values[keys.topic(name)] = encode(topic)
        return values

    def _chosen(self) -> dict[str, Topic]:
        """The topics by name."""
        chosen: dict[str, Topic] = {}
        for name, topic in self._image.topics.items():
            topic_id = bytes.fromhex(topic.topic_id)
            if self._is_gone(topic_id):
                self.notes.append(f"topic {name} was deleted after it was saved: it stays away")
            else:
                chosen[name] = topic
        for topic_id, name in self._held.topics():
            if topic_id in self._image.topics_by_id:
                continue
            if topic_id in self._once_known:
                self.notes.append(f"topic {name} with id {topic_id.hex()} was deleted: what nodes still hold becomes strays")
                continue
            rival = chosen.get(name)
            if rival is not None and not self._is_later(topic_id, bytes.fromhex(rival.topic_id)):
                self.notes.append(f"topic {name} is there with two ids, and {topic_id.hex()} is the older one: it becomes strays")
                continue
            if rival is not None:
                self.notes.append(f"topic {name} is there with two ids, and {rival.topic_id} is the older one: it becomes strays")
            self.notes.append(f"topic {name} is newer than all saved metadata: its configs are the defaults")
            if self._held.is_deleted(topic_id):
                self.notes.append(f"topic {name} was perhaps about to be deleted: delete it again if nobody misses it")
            chosen[name] = Topic(name, topic_id.hex(), 0, internal=name in INTERNAL_TOPICS)
        return chosen

    def _is_gone(self, topic_id: bytes) -> bool:
        """Whether a topic of the base was deleted since: every node was read, and some are about to remove what others lack."""
        held = self._held
        if held.indexes(topic_id) or not held.is_deleted(topic_id) or not held.are_read(self._image.nodes):
            return False
        states = [state for state in self._image.partitions_of(topic_id) if state is not None]
        return all(held.is_lacking(replica) for state in states for replica in state.replicas)

    def _is_later(self, topic_id: bytes, rival: bytes) -> bool:
        return self._held.written_ms(topic_id) > self._held.written_ms(rival)

    def _configs(self, name: str, topic_id: bytes) -> dict[str, str]:
        if topic_id in self._image.topics_by_id:
            return dict(self._image.overrides("topic", name))
        return kept_synced(name, internal_topic_configs(self._image, name) if name in PREFIXES else {})

    def _state(self, topic: Topic, topic_id: bytes, index: int) -> PartitionState:
        saved = self._image.partition(topic_id, index)
        holders = dict(self._held.holders(topic_id, index))
        if saved is None and not holders:
            self.notes.append(f"{topic.name}-{index} is held by no node: it is made anew, and is empty")
            return in_doubt(self._unknown_state(sorted(self._held.nodes_of(topic_id) or self._image.nodes), index))
        if saved is None:
            saved = self._unknown_state(sorted(holders), index)
        elif strangers := holders.keys() - {replica.node_id for replica in saved.replicas}:
            removed = {node_id for node_id in strangers if (topic_id, index, node_id) in self._once_replicas}
            if removed and len(removed) < len(holders):
                self.notes.append(f"{topic.name}-{index} was moved away from nodes {_listed(removed)}: it becomes strays there")
                holders = {node_id: held for node_id, held in holders.items() if node_id not in removed}
        return self._doubted(topic, index, saved, holders)

    def _doubted(self, topic: Topic, index: int, saved: PartitionState, holders: dict[int, HeldPartition]) -> PartitionState:
        """The state in doubt. Its leader is elected among nodes that hold the partition or were not read."""
        staying = saved.replicas
        if len(holders) >= saved.replication_factor and not saved.adding and not saved.removing:
            staying = tuple([r for r in staying if r.node_id in holders or not self._held.is_lacking(r)])
        replicas = [*staying, *[Replica(n, "") for n in sorted(holders) if n not in {r.node_id for r in staying}]]
        to_ask = [r.node_id for r in replicas if r.node_id in holders or not self._held.is_lacking(r)]
        if not to_ask:
            self.notes.append(f"{topic.name}-{index} is held by none of its replicas ({_listed(r.node_id for r in replicas)})")
            to_ask = [replica.node_id for replica in replicas]
        directories = {node_id: held.directory_id for node_id, held in holders.items()}
        state = replace(
            saved,
            replicas=tuple([Replica(r.node_id, directories.get(r.node_id, r.log_dir_id)) for r in replicas]),
            leader_epoch=max([saved.leader_epoch, *[held.latest_epoch for held in holders.values()]]),
            owner_epoch=max(saved.owner_epoch, self._highest_owner_epoch) if saved.owner_epoch else 0,
        )
        return replace(in_doubt(state), isr=tuple([InSync(node_id, NO_INCARNATION) for node_id in to_ask]))

    def _unknown_state(self, nodes: Sequence[int], index: int) -> PartitionState:
        """The state of a partition that no saved metadata knows. The first replica is another one for each partition, so that one
        node does not lead all."""
        first, owner_epoch = index % len(nodes), max(UNKNOWN_OWNER_EPOCH, self._highest_owner_epoch)
        replicas = [Replica(node_id, "") for node_id in [*nodes[first:], *nodes[:first]]]
        return PartitionState(tuple(replicas), NO_LEADER, NO_INCARNATION, 0, 0, (), owner_epoch=owner_epoch)


def _listed(node_ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(node_ids)))
