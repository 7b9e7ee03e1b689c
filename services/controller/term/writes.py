"""Decisions as etcd transactions: their contents, their order, and the proof that one was applied.

A transaction with an unknown outcome may be sent again. It compares what it changes with what was read, so it is applied at most
once, however late it arrives. A key that exists changes with the write. A key that does not exist could be created and deleted in
between. So a transaction that compares absence also compares that nothing was deleted (`keys.DELETIONS`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from libs.cluster import keys
from libs.cluster.acls import AclBinding
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import (
    STORAGE,
    AclRecord,
    ClientQuotas,
    ConfigOverrides,
    MetadataHistory,
    NodeRecord,
    PartitionState,
    Topic,
)
from libs.cluster.scram_credentials import ScramCredential, encoded
from libs.cluster.store import Compare, CreateRevisionIs, Delete, KeyValue, ModRevisionIs, Operation, Put
from libs.lean_dataclass import dataclass
from services.controller.core.administration.client_quotas import QuotaAlteration
from services.controller.core.balancing.replica_moves import holders
from services.controller.core.partitions.partition_states import follows_the_table
from services.controller.core.reassignment.decommissioning import DECOMMISSION
from services.controller.core.topics.alter_configs import Alteration
from services.controller.core.topics.create_partitions import PlannedGrowth
from services.controller.core.topics.topics import PlannedTopic

T = TypeVar("T")

BATCH: Final = 60
"""Partitions (or topics, or configs) in one transaction. With their comparisons they stay well within etcd's 128 operations."""

ACL_BATCH: Final = 120
"""ACLs in one transaction. Each takes a comparison and an operation, and its key has `ACL_KEY_MAX` bytes at most."""

NAME_MAX: Final = 1024
"""Resources with longer names get a transaction of their own."""

DELETES: Final = Put(keys.DELETIONS, encode(""))
"""The write that every deletion makes. Deletions do not compare it, so they do not conflict with each other."""


@dataclass(frozen=True, slots=True)
class Write:
    """One transaction. Reading back `proof`'s key shows whether all of it was applied."""

    compares: tuple[Compare, ...]
    operations: tuple[Operation, ...]
    proof: Operation


def creation(image: ClusterImage, planned: Sequence[PlannedTopic]) -> Iterator[tuple[Write, list[PlannedTopic]]]:
    """The writes that create topics, in order, each with the topics that exist once it is applied.

    Several small topics share a transaction. A large topic's partitions come first, in batches, and its record comes with the
    last batch. Nobody sees the topic before that, and the next controller deletes what a crash leaves behind.
    """
    whole: list[PlannedTopic] = []
    for topic in planned:
        if len(topic.partitions) > BATCH:
            yield from _large_creation(image, topic)
            continue
        # A topic takes operations for its partitions, its record and its configs: some 60, so that two batches fit into one
        # transaction.
        if whole and sum(len(t.partitions) + 2 for t in whole) + len(topic.partitions) + 2 > 2 * BATCH:
            yield _whole_topics(image, whole), whole
            whole = []
        whole.append(topic)
    if whole:
        yield _whole_topics(image, whole), whole


def _whole_topics(image: ClusterImage, topics: Sequence[PlannedTopic]) -> Write:
    compares: list[Compare] = []
    operations: list[Operation] = []
    for topic in topics:
        compares.append(CreateRevisionIs(keys.topic(topic.topic.name), 0))
        operations += [_put_partition(topic.topic_id, index, state) for index, state in enumerate(topic.partitions)]
        operations += _topic_and_configs(topic)
    return Write(_once(image, compares), tuple(operations), _put_topic(topics[0].topic))


def _large_creation(image: ClusterImage, topic: PlannedTopic) -> Iterator[tuple[Write, list[PlannedTopic]]]:
    """The batches of one large topic. Each compares that nothing was deleted since `image`, so earlier batches still exist."""
    chunks = list(_chunks(list(enumerate(topic.partitions))))
    for chunk in chunks[:-1]:
        yield _partition_batch(image, [(topic.topic_id, index, state) for index, state in chunk]), []
    last = tuple(_put_partition(topic.topic_id, index, state) for index, state in chunks[-1])
    guard = CreateRevisionIs(keys.topic(topic.topic.name), 0)
    yield Write(_once(image, [guard]), (*last, *_topic_and_configs(topic)), _put_topic(topic.topic)), [topic]


def growth(image: ClusterImage, planned: PlannedGrowth) -> Iterator[Write]:
    """The added partitions, then the topic's record with the last of them, which commits the growth."""
    topic_id = bytes.fromhex(planned.before.topic_id)
    added = [(topic_id, planned.before.partitions + n, state) for n, state in enumerate(planned.added)]
    chunks = list(_chunks(added))
    for chunk in chunks[:-1]:
        yield _partition_batch(image, chunk)
    key = keys.topic(planned.after.name)
    puts = tuple(_put_partition(*partition) for partition in chunks[-1])
    record = _put_topic(planned.after)
    yield Write((ModRevisionIs(key, image.mod_revision(key)),), (*puts, record), record)


def deletion(image: ClusterImage, topics: Sequence[Topic]) -> Iterator[tuple[Write, list[Topic]]]:
    """The deletion of topics. A topic's record, configs and partitions are deleted in one transaction."""
    for chunk in _chunks(topics, BATCH // 2):
        operations: list[Operation] = []
        for topic in chunk:
            operations.append(Delete(keys.topic(topic.name)))
            operations.append(Delete(keys.config("topic", topic.name)))
            operations.append(Delete(keys.partitions_of(bytes.fromhex(topic.topic_id)), prefix=True))
        operations.append(DELETES)
        compares = tuple(
            CreateRevisionIs(keys.topic(topic.name), image.create_revision(keys.topic(topic.name))) for topic in chunk
        )
        yield Write(compares, tuple(operations), operations[0]), list(chunk)


def partition_changes(image: ClusterImage, changed: Sequence[tuple[bytes, int, PartitionState]]) -> Iterator[Write]:
    """New states of existing partitions, in independent batches. Each is made when it is needed, while earlier ones are in
    flight."""
    for chunk in _chunks(changed):
        for topic_id, index, state in chunk:
            before = image.partition(topic_id, index)
            assert before is not None
            assert follows_the_table(before, state), f"{before} must not become {state}"
        yield _partition_batch(image, chunk)


def alterations(
    image: ClusterImage, current: Callable[[], ClusterImage], changed: Sequence[Alteration]
) -> Iterator[tuple[Write, list[Alteration]]]:
    """The writes of config changes that were decided on `image`. `current` shows earlier ones of these, which may have deleted
    something."""
    # A group's name may have 32 KB and occurs twice in a transaction; etcd takes 1.5 MB at most.
    are_short = all(len(alteration.resource.name) <= NAME_MAX for alteration in changed)
    for chunk in _chunks(changed, BATCH if are_short else 1):
        compares: list[Compare] = []
        operations: list[Operation] = []
        for alteration in chunk:
            key = keys.config(alteration.kind, alteration.resource.name)
            compares.append(ModRevisionIs(key, image.mod_revision(key)))
            if alteration.kind == "topic":
                # Not if the topic was deleted: the overrides would apply to the next topic of that name.
                topic = keys.topic(alteration.resource.name)
                compares.append(CreateRevisionIs(topic, image.create_revision(topic)))
            assert alteration.values is not None  # refused alterations are never written
            operations.append(_put_configs(key, alteration.values))
        if any(isinstance(operation, Delete) for operation in operations):
            operations.append(DELETES)
        yield Write(_once(current(), compares), tuple(operations), operations[0]), list(chunk)


def quota_alterations(
    image: ClusterImage, current: Callable[[], ClusterImage], changed: Sequence[QuotaAlteration]
) -> Iterator[tuple[Write, list[QuotaAlteration]]]:
    """The writes of changes of client quotas that were decided on `image`. `current` is as in `alterations`."""
    keyed = [(keys.client_quotas(each.entity), each) for each in changed if each.entity is not None]
    are_short = all(len(key) <= NAME_MAX for key, _ in keyed)
    for chunk in _chunks(keyed, BATCH if are_short else 1):
        compares = [ModRevisionIs(key, image.mod_revision(key)) for key, _ in chunk]
        operations: list[Operation] = []
        for key, alteration in chunk:
            operations.append(Put(key, encode(ClientQuotas(alteration.values))) if alteration.values else Delete(key))
        if any(isinstance(operation, Delete) for operation in operations):
            operations.append(DELETES)
        yield Write(_once(current(), compares), tuple(operations), operations[0]), [alteration for _, alteration in chunk]


def acl_creation(image: ClusterImage, bindings: Iterable[AclBinding]) -> Iterator[Write]:
    """Independent writes of ACLs that `image` lacks."""
    for chunk in _chunks([keys.acl(binding) for binding in bindings], ACL_BATCH):
        puts = tuple([Put(key, encode(AclRecord())) for key in chunk])
        yield Write(_once(image, [CreateRevisionIs(key, 0) for key in chunk]), puts, puts[0])


def acl_deletion(image: ClusterImage, bindings: Iterable[AclBinding]) -> Iterator[tuple[Write, list[AclBinding]]]:
    """The deletion of ACLs of `image`."""
    for chunk in _chunks(bindings, ACL_BATCH):
        names = [keys.acl(binding) for binding in chunk]
        compares = tuple([CreateRevisionIs(key, image.create_revision(key)) for key in names])
        yield _deleting(compares, [Delete(key) for key in names]), chunk


def scram_changes(
    stored: Mapping[str, KeyValue], changes: Mapping[tuple[str, str], ScramCredential | None], secret: bytes
) -> Write:
    """The write of changed SCRAM credentials. `stored` has the keys as they were when it was decided, and `secret` is written if
    there is none.

    Each write also writes the secret's key, and compares it. So only one of two writes that were decided together is applied, and
    a late one never is.
    """
    compares: list[Compare] = []
    kept = stored.get(keys.SCRAM_SECRET)
    compares.append(ModRevisionIs(keys.SCRAM_SECRET, kept.mod_revision if kept is not None else 0))
    operations: list[Operation] = [Put(keys.SCRAM_SECRET, kept.value if kept is not None else secret)]
    for (mechanism, user), credential in changes.items():
        key = keys.scram_credential(mechanism, user)
        operations.append(Delete(key) if credential is None else Put(key, encoded(credential)))
    return Write(tuple(compares), tuple(operations), operations[1])


def node_records(image: ClusterImage, records: Sequence[NodeRecord]) -> list[Write]:
    writes = []
    for chunk in _chunks(records):
        compares = [ModRevisionIs(keys.node(r.node_id), image.mod_revision(keys.node(r.node_id))) for r in chunk]
        puts = tuple(Put(keys.node(record.node_id), encode(record)) for record in chunk)
        writes.append(Write(_once(image, compares), puts, puts[0]))
    return writes


def unregistering(image: ClusterImage, node_id: int) -> Write:
    """The deletion of a dead node's record. It compares that the node is not registered, since a live node's record would be
    missed.

    If the node is empty, `decommission` is deleted too, so that it does not apply to the next node with this id. Other configs
    stay, as in Kafka.
    """
    key, configs = keys.node(node_id), keys.config("broker", str(node_id))
    compares: list[Compare] = [CreateRevisionIs(keys.member(STORAGE, node_id), 0), ModRevisionIs(key, image.mod_revision(key))]
    operations: list[Operation] = [Delete(key), DELETES]
    values = image.overrides("broker", str(node_id))
    if DECOMMISSION in values and node_id not in holders(image):
        compares.append(ModRevisionIs(configs, image.mod_revision(configs)))
        operations.append(_put_configs(configs, {name: value for name, value in values.items() if name != DECOMMISSION}))
    return Write(tuple(compares), tuple(operations), operations[0])


def sweeping(image: ClusterImage) -> list[Write]:
    """Writes that delete partitions without a topic: those of a creation or growth that did not finish. Repeat until there are
    none.

    A late write must not delete a topic that was finished after all. The last transaction of a creation writes the next
    partition, and compares that nothing was deleted. That of a growth compares the topic's record, which is written anew here. So
    only one of the two can be applied. Hence there is one transaction per topic, and the next one follows when the image shows
    it. None compares `keys.DELETIONS`, since several are in flight together.
    """
    half_made: list[Write] = []
    for topic_id in image.uncommitted_topic_ids():
        stored = len(image.partitions_of(topic_id))
        last = keys.partition(topic_id, stored - 1)
        still_there = CreateRevisionIs(last, image.create_revision(last))
        unfinished = CreateRevisionIs(keys.partition(topic_id, stored), 0)
        half_made.append(_deleting((still_there, unfinished), [Delete(keys.partitions_of(topic_id), prefix=True)]))
    half_grown: list[Write] = []
    for topic_id, topic in image.topics_by_id.items():
        partitions = image.partition_table.get(topic_id)
        stored = len(partitions.states) if partitions is not None else 0
        if stored > topic.partitions:
            surplus = [Delete(keys.partition(topic_id, index)) for index in range(topic.partitions, stored)][:BATCH]
            key = keys.topic(topic.name)
            half_grown.append(_deleting((ModRevisionIs(key, image.mod_revision(key)),), surplus, _put_topic(topic)))
    return half_made + half_grown


def _deleting(compares: tuple[Compare, ...], deletions: list[Delete], *puts: Put) -> Write:
    return Write(compares, (*deletions, *puts, DELETES), deletions[0])


def feature_levels(image: ClusterImage, levels: Mapping[str, int]) -> Write:
    """The new finalized levels of features, together."""
    compares = [ModRevisionIs(keys.feature(name), image.mod_revision(keys.feature(name))) for name in levels]
    puts = tuple([Put(keys.feature(name), encode(level)) for name, level in levels.items()])
    return Write(_once(image, compares), puts, puts[0])


def history_change(image: ClusterImage, history: MetadataHistory) -> Write:
    record = Put(keys.HISTORY, encode(history))
    return Write(_once(image, [ModRevisionIs(keys.HISTORY, image.mod_revision(keys.HISTORY))]), (record,), record)


def cluster_creation(cluster_id: str, feature_level: int, defaults: dict[str, str], scram: Mapping[str, bytes]) -> Write:
    """The write of the first controller of a cluster. `scram`: the contents of the keys of its first users."""
    identity = Put(keys.CLUSTER_ID, encode(cluster_id))
    operations: list[Operation] = [identity, Put(keys.FEATURE_LEVEL, encode(feature_level))]
    operations += [Put(key, value) for key, value in scram.items()]
    if defaults:
        operations.append(Put(keys.config("broker", ""), encode(ConfigOverrides(defaults))))
    return Write((CreateRevisionIs(keys.CLUSTER_ID, 0),), tuple(operations), identity)


def _partition_batch(image: ClusterImage, changed: Sequence[tuple[bytes, int, PartitionState]]) -> Write:
    compares = [
        ModRevisionIs(key, image.mod_revision(key)) for key in (keys.partition(topic_id, i) for topic_id, i, _ in changed)
    ]
    puts = tuple(_put_partition(*partition) for partition in changed)
    return Write(_once(image, compares), puts, puts[0])


def _once(image: ClusterImage, compares: Sequence[Compare]) -> tuple[Compare, ...]:
    """`compares`, and if one of them expects a missing key, also that nothing was deleted since `image`."""
    if all(compare.revision for compare in compares):
        return tuple(compares)
    return (*compares, ModRevisionIs(keys.DELETIONS, image.mod_revision(keys.DELETIONS)))


def _put_partition(topic_id: bytes, index: int, state: PartitionState) -> Put:
    return Put(keys.partition(topic_id, index), encode(state))


def _put_topic(topic: Topic) -> Put:
    return Put(keys.topic(topic.name), encode(topic))


def _put_configs(key: str, values: dict[str, str]) -> Operation:
    return Put(key, encode(ConfigOverrides(values))) if values else Delete(key)


def _topic_and_configs(topic: PlannedTopic) -> list[Operation]:
    operations: list[Operation] = [_put_topic(topic.topic)]
    if topic.configs:
        operations.append(Put(keys.config("topic", topic.topic.name), encode(ConfigOverrides(topic.configs))))
    return operations


def _chunks(items: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    chunk: list[T] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
