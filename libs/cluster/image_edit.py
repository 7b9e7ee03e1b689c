"""One step from a cluster image to the next: each map is copied when it is first written, and not before."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from libs.cluster import keys
from libs.cluster.acl_index import AclEdit
from libs.cluster.codec import RecordError, decode
from libs.cluster.partition_table import TopicPartitions, TopicPartitionsEdit, Versions
from libs.cluster.records import (
    NO_HISTORY,
    ClientQuotas,
    ConfigOverrides,
    ElectedController,
    ElectedQuotaManager,
    Member,
    MetadataHistory,
    NodeRecord,
    PartitionState,
    Topic,
)

if TYPE_CHECKING:
    from libs.cluster.image import ClusterImage

K = TypeVar("K")
V = TypeVar("V")

MAX_PARTITION_INDEX = 1_000_000
"""The largest partition index that is accepted, since a key must not decide how large our tables become."""


class _Draft(Generic[K, V]):
    """A map that is shared until it is written."""

    __slots__ = ("_copied", "map")

    def __init__(self, base: Mapping[K, V]) -> None:
        self.map: Mapping[K, V] = base
        self._copied: dict[K, V] | None = None

    def writable(self) -> dict[K, V]:
        if self._copied is None:
            self.map = self._copied = dict(self.map)
        return self._copied

    def drop(self, key: K) -> None:
        if key in self.map:
            del self.writable()[key]


class ImageEdit:
    def __init__(self, image: "ClusterImage") -> None:
        self._image = image
        self._cluster_id = image.cluster_id
        self._feature_level = image.feature_level
        self._finalized_features = _Draft(image.finalized_features)
        self._history = image.history
        self._next_producer_id = image.next_producer_id
        self._controller = image.controller
        self._quota_manager = image.quota_manager
        self._topics = _Draft(image.topics)
        self._topics_by_id = _Draft(image.topics_by_id)
        self._nodes = _Draft(image.nodes)
        self._members = _Draft(image.members_by_role)
        self._overrides = _Draft(image.overrides_by_resource)
        self._client_quotas = _Draft(image.client_quotas)
        self._acls = AclEdit(image.acls)
        self._unknown_acls = _Draft(image.unknown_acls)
        self._partitions: dict[bytes, TopicPartitionsEdit] = {}
        self._versions = _Draft(image.versions)
        self._topics_revision = image.topics_revision

    def put(self, key: str, value: bytes, created: int, modified: int) -> None:
        """Puts a key. Raises RecordError, which names the key."""
        versions = Versions(created, modified)
        place = keys.partition_of(key) if key.startswith(keys.PARTITIONS) else None
        try:
            if place is not None:
                self._put_partition(place, value, versions)
            else:
                self._put(keys.split(key), value)
                self._versions.writable()[key] = versions
                self._note_topic_change(key, modified)
        except ValueError as error:
            raise RecordError(f"{key}: {error}") from None

    def delete(self, key: str, modified: int = 0) -> None:
        """Deletes a key, at revision `modified` if that is known. Raises RecordError for a key that could never have been put."""
        if key.startswith(keys.PARTITIONS):
            topic_id, index = keys.partition_of(key)
            self._topic_partitions(topic_id).delete(index)
        elif key in self._versions.map:
            self._delete(keys.split(key))
            del self._versions.writable()[key]
            self._note_topic_change(key, modified)

    def finish(self, revision: int) -> "ClusterImage":
        table = _Draft(self._image.partition_table)
        for topic_id, edit in self._partitions.items():
            partitions = edit.finish()
            if partitions is None:
                table.drop(topic_id)
            else:
                table.writable()[topic_id] = partitions
        return replace(
            self._image,
            revision=revision,
            cluster_id=self._cluster_id,
            feature_level=self._feature_level,
            finalized_features=self._finalized_features.map,
            history=self._history,
            next_producer_id=self._next_producer_id,
            controller=self._controller,
            quota_manager=self._quota_manager,
            topics=self._topics.map,
            topics_by_id=self._topics_by_id.map,
            nodes=self._nodes.map,
            members_by_role=self._members.map,
            overrides_by_resource=self._overrides.map,
            client_quotas=self._client_quotas.map,
            acls=self._acls.finish(),
            unknown_acls=self._unknown_acls.map,
            partition_table=table.map,
            versions=self._versions.map,
            topics_revision=self._topics_revision,
        )

    def _put(self, parts: tuple[str, ...], value: bytes) -> None:
        match parts:
            case ("members", role, node_id):
                member = decode(Member, value)
                self._members.writable()[role] = {**self._members.map.get(role, {}), int(node_id): member}
            case ("topics", name):
                self._put_topic(name, decode(Topic, value))
            case ("configs", kind, name):
                self._overrides.writable()[kind, name] = decode(ConfigOverrides, value).values
            case ("quotas", place):
                entity = keys.quota_entity_of(keys.QUOTAS + place)
                if entity is not None:
                    self._client_quotas.writable()[entity] = decode(ClientQuotas, value).values
            case ("acls", place):
                binding = keys.acl_of(keys.ACLS + place)
                if binding is not None:
                    self._acls.add(binding)
                else:
                    self._unknown_acls.writable()[keys.ACLS + place] = None
            case ("nodes", node_id):
                self._nodes.writable()[int(node_id)] = decode(NodeRecord, value)
            case ("election", "controller"):
                self._controller = decode(ElectedController, value)
            case ("election", "quota_manager"):
                self._quota_manager = decode(ElectedQuotaManager, value)
            case ("cluster_id",):
                self._cluster_id = decode(str, value)
            case ("feature_level",):
                self._feature_level = decode(int, value)
            case ("features", name):
                self._finalized_features.writable()[name] = decode(int, value)
            case ("history",):
                self._history = decode(MetadataHistory, value)
            case ("producer_ids",):
                self._next_producer_id = decode(int, value)
            case _:
                pass  # A kind of a later version. Only its revisions are kept.

    def _delete(self, parts: tuple[str, ...]) -> None:
        match parts:
            case ("members", role, node_id):
                remaining = {id_: member for id_, member in self._members.map[role].items() if id_ != int(node_id)}
                if remaining:
                    self._members.writable()[role] = remaining
                else:
                    self._members.drop(role)
            case ("topics", name):
                self._topics_by_id.drop(bytes.fromhex(self._topics.map[name].topic_id))
                self._topics.drop(name)
            case ("configs", kind, name):
                self._overrides.drop((kind, name))
            case ("quotas", place):
                entity = keys.quota_entity_of(keys.QUOTAS + place)
                if entity is not None:
                    self._client_quotas.drop(entity)
            case ("acls", place):
                binding = keys.acl_of(keys.ACLS + place)
                if binding is not None:
                    self._acls.remove(binding)
                else:
                    self._unknown_acls.drop(keys.ACLS + place)
            case ("nodes", node_id):
                self._nodes.drop(int(node_id))
            case ("election", "controller"):
                self._controller = None
            case ("election", "quota_manager"):
                self._quota_manager = None
            case ("cluster_id",):
                self._cluster_id = ""
            case ("feature_level",):
                self._feature_level = 1
            case ("features", name):
                self._finalized_features.drop(name)
            case ("history",):
                self._history = NO_HISTORY
            case ("producer_ids",):
                self._next_producer_id = 0
            case _:
                pass

    def _note_topic_change(self, key: str, modified: int) -> None:
        if key.startswith(keys.TOPICS):
            self._topics_revision = max(self._topics_revision, modified)

    def _put_topic(self, name: str, topic: Topic) -> None:
        topic_id = bytes.fromhex(topic.topic_id)
        before = self._topics.map.get(name)
        if before is not None and before.topic_id != topic.topic_id:
            self._topics_by_id.drop(bytes.fromhex(before.topic_id))
        self._topics.writable()[name] = topic
        self._topics_by_id.writable()[topic_id] = topic

    def _put_partition(self, place: tuple[bytes, int], value: bytes, versions: Versions) -> None:
        topic_id, index = place
        if not 0 <= index <= MAX_PARTITION_INDEX:
            raise RecordError(f"partition index {index}")
        self._topic_partitions(topic_id).put(index, decode(PartitionState, value), versions)

    def _topic_partitions(self, topic_id: bytes) -> TopicPartitionsEdit:
        edit = self._partitions.get(topic_id)
        if edit is None:
            base = self._image.partition_table.get(topic_id, TopicPartitions())
            edit = self._partitions[topic_id] = TopicPartitionsEdit(base)
        return edit
