"""The cluster's metadata as one immutable snapshot with a revision, advanced by watch batches.

Snapshots share what did not change: a batch costs its own events plus one copy of each map that it touches, never a copy of
10,000 partitions. What did not change is the same object in both, so that subscribers compare with `is`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from libs.cluster import keys
from libs.cluster.acl_index import NO_ACLS, AclIndex
from libs.cluster.image_edit import ImageEdit
from libs.cluster.partition_table import ABSENT, TopicPartitions, Versions
from libs.cluster.records import (
    NO_HISTORY,
    ElectedController,
    ElectedQuotaManager,
    Member,
    MetadataHistory,
    NodeRecord,
    PartitionState,
    QuotaEntity,
    Topic,
)
from libs.cluster.store import RangeResult, WatchBatch
from libs.lean_dataclass import dataclass

_NOTHING: Mapping[str, str] = {}
_NOBODY: Mapping[int, Member] = {}


@dataclass(frozen=True, slots=True)
class PartitionChange:
    topic_id: bytes
    index: int
    before: PartitionState | None
    after: PartitionState | None


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The cluster's metadata at one revision. `from_range` builds it, and `apply` makes the next one. Both raise RecordError for
    a value that is no valid record."""

    revision: int = 0
    cluster_id: str = ""
    feature_level: int = 1
    finalized_features: Mapping[str, int] = field(default_factory=dict)
    """The finalized levels of Kafka's features, where they have been changed. `features.py` knows the others."""
    history: MetadataHistory = NO_HISTORY
    next_producer_id: int = 0
    topics: Mapping[str, Topic] = field(default_factory=dict)
    topics_by_id: Mapping[bytes, Topic] = field(default_factory=dict)
    nodes: Mapping[int, NodeRecord] = field(default_factory=dict)
    controller: ElectedController | None = None
    quota_manager: ElectedQuotaManager | None = None
    members_by_role: Mapping[str, Mapping[int, Member]] = field(default_factory=dict)
    overrides_by_resource: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    """The quotas of each entity by Kafka's names. `client_quotas.py` tells whom they limit."""
    acls: AclIndex = NO_ACLS
    """`standard_authorizer.py` decides by them."""
    unknown_acls: Mapping[str, None] = field(default_factory=dict)
    """The keys of ACLs of a kind that a later version knows. They match no request."""
    partition_table: Mapping[bytes, TopicPartitions] = field(default_factory=dict)
    versions: Mapping[str, Versions] = field(default_factory=dict)
    """The revisions of every key below the prefix except partitions, which keep theirs in their table."""
    topics_revision: int = field(default=0, compare=False)
    """The revision of the newest change of a topic's record: an image at or past it knows these topics or later ones. A deletion
    counts if a watch brought it. A list does not tell when it was."""

    @classmethod
    def from_range(cls, listed: RangeResult) -> "ClusterImage":
        return cls().relisted(listed)

    def relisted(self, listed: RangeResult) -> "ClusterImage":
        """The image that `listed` describes, sharing with this one whatever is still the same. For use after a watch gap."""
        edit = ImageEdit(self)
        deleted_keys = set(self.keys())
        for item in listed.items:
            deleted_keys.discard(item.key)
            if self.mod_revision(item.key) != item.mod_revision:
                edit.put(item.key, item.value, item.create_revision, item.mod_revision)
        for key in deleted_keys:
            edit.delete(key)
        return edit.finish(listed.revision)

    def apply(self, batch: WatchBatch) -> "ClusterImage":
        """The image after `batch`. Events that this image contains already are passed over."""
        if batch.revision <= self.revision:
            return self
        edit = ImageEdit(self)
        for event in batch.events:
            if event.mod_revision <= self.revision:
                continue
            if event.value is None:
                edit.delete(event.key, event.mod_revision)
            else:
                edit.put(event.key, event.value, event.create_revision, event.mod_revision)
        return edit.finish(batch.revision)

    def members(self, role: str) -> Mapping[int, Member]:
        return self.members_by_role.get(role, _NOBODY)

    def overrides(self, kind: str, name: str) -> Mapping[str, str]:
        return self.overrides_by_resource.get((kind, name), _NOTHING)

    def partition(self, topic_id: bytes, index: int) -> PartitionState | None:
        """A partition's state as stored. It is there too while the topic is being created or deleted, when `topics_by_id` lacks
        the topic."""
        partitions = self.partition_table.get(topic_id)
        return partitions.state(index) if partitions is not None else None

    def partitions_of(self, topic_id: bytes) -> Sequence[PartitionState | None]:
        """One entry per partition; None where the state is not there (yet).

        There are exactly as many as the topic's record says, or as many as are stored where there is no such record.
        """
        partitions = self.partition_table.get(topic_id)
        states = partitions.states if partitions is not None else ()
        topic = self.topics_by_id.get(topic_id)
        if topic is None or topic.partitions == len(states):
            return states
        return states[: topic.partitions] + (None,) * (topic.partitions - len(states))

    def states(self) -> Iterator[tuple[bytes, int, PartitionState]]:
        """(topic id, index, state) of every partition of every topic, but for those whose state is not there (yet)."""
        for topic_id in self.topics_by_id:
            for index, state in enumerate(self.partitions_of(topic_id)):
                if state is not None:
                    yield topic_id, index, state

    def uncommitted_topic_ids(self) -> list[bytes]:
        """Topics that have partition states and no record: being created, being deleted, or left behind by a lost controller."""
        return [topic_id for topic_id in self.partition_table if topic_id not in self.topics_by_id]

    def partition_changes_since(self, old: "ClusterImage") -> Iterator[PartitionChange]:
        """Partitions whose stored state differs. Costs one identity check per topic, and a scan only of those that changed."""
        new_table, old_table = self.partition_table, old.partition_table
        if new_table is old_table:
            return
        for topic_id in [*new_table, *(deleted for deleted in old_table if deleted not in new_table)]:
            after, before = new_table.get(topic_id), old_table.get(topic_id)
            if after is not before:
                yield from _changes(topic_id, before, after)

    def create_revision(self, key: str) -> int:
        """A key's create revision. It is 0 when there is no such key, and a create-if-absent guard compares with that."""
        return self._versions_of(key).created

    def mod_revision(self, key: str) -> int:
        return self._versions_of(key).modified

    def keys(self) -> Iterator[str]:
        yield from self.versions
        for topic_id, partitions in self.partition_table.items():
            for index, state in enumerate(partitions.states):
                if state is not None:
                    yield keys.partition(topic_id, index)

    def _versions_of(self, key: str) -> Versions:
        if key.startswith(keys.PARTITIONS):
            topic_id, index = keys.partition_of(key)
            partitions = self.partition_table.get(topic_id)
            return partitions.version(index) if partitions is not None else ABSENT
        return self.versions.get(key, ABSENT)


def _changes(topic_id: bytes, before: TopicPartitions | None, after: TopicPartitions | None) -> Iterator[PartitionChange]:
    old = before.states if before is not None else ()
    new = after.states if after is not None else ()
    for index in range(max(len(old), len(new))):
        was = old[index] if index < len(old) else None
        now = new[index] if index < len(new) else None
        if was is not now:
            yield PartitionChange(topic_id, index, was, now)
