"""A Kafka cluster's metadata as saved metadata of Penstock, from which a rebuild fills the store.

Topics keep their ids, partitions their replicas and epochs, so that logs need no change. What Penstock has no counterpart of is
named in a note. What would serve wrong data is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.configs import definitions
from libs.cluster.configs.definitions import KINDS, ConfigError
from libs.cluster.features import FEATURES
from libs.cluster.image import ClusterImage
from libs.cluster.records import ConfigOverrides, NodeRecord, PartitionState, Replica, Topic
from libs.cluster.saved_metadata import SavedMetadata
from libs.cluster.store import KeyValue, RangeResult
from libs.cluster.topic_names import GROUP_TOPIC, INTERNAL_TOPICS, TRANSACTION_TOPIC
from libs.lean_dataclass import dataclass
from services.controller.core.administration.first_users import Users
from services.controller.core.elections.leader_election import NO_INCARNATION, NO_LEADER
from services.controller.core.migration.errors import CannotAdopt
from services.controller.core.migration.kafka_quotas import adopted_quotas
from services.controller.core.migration.kafka_security import adopted_acls, adopted_users
from services.controller.core.migration.kraft_metadata import KraftMetadata
from services.controller.core.migration.kraft_partitions import PartitionAdded
from services.controller.core.migration.static_configs import cluster_defaults, gateway_notes, start_notes, unknown_note
from services.controller.core.topics.internal_topic_configs import kept_synced

METADATA_VERSION: Final = "metadata.version"
METADATA_VERSIONS: Final = range(22, 30)
"""The levels of Kafka 4.0 to 4.2, which write the records that are read here."""
TIERED: Final = "remote.storage.enable"
CLUSTER_WIDE: Final = (definitions.BROKER, "")
"""The resource of the defaults of all brokers."""
_FIRST_REAL_DIRECTORY: Final = 100
"""Kafka reserves directory ids below this for "unassigned", "lost" and such."""
_NOT_CARRIED_OVER: Final = "is not carried over"


@dataclass(frozen=True, slots=True)
class StaticConfigs:
    """The properties of each broker whose `server.properties` is known, and the ids of the other brokers."""

    by_broker: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    unknown: Sequence[int] = ()


@dataclass(slots=True)
class Adopted:
    """The metadata, the users, whom no image shows, and what of Kafka's is in neither."""

    saved: SavedMetadata
    users: Users
    notes: list[str] = field(default_factory=list)


def adopted(kafka: KraftMetadata, cluster_id: str, static: StaticConfigs, *, feature_level: int, saved_ms: int) -> Adopted:
    """Raises CannotAdopt."""
    level = kafka.features.get(METADATA_VERSION, 0)
    if level not in METADATA_VERSIONS:
        raise CannotAdopt(
            f"{METADATA_VERSION} is {level}; {METADATA_VERSIONS.start} to {METADATA_VERSIONS.stop - 1} can be taken over, "
            "which are those of Kafka 4.0 to 4.2: upgrade Kafka, and finalize it with kafka-features.sh"
        )
    notes = start_notes(static.by_broker)
    values = {keys.CLUSTER_ID: encode(cluster_id), keys.FEATURE_LEVEL: encode(feature_level)}
    values[keys.PRODUCER_IDS] = encode(kafka.next_producer_id)
    for feature in FEATURES:
        level = kafka.features.get(feature.name, feature.min_level)
        values[keys.feature(feature.name)] = encode(min(max(level, feature.min_level), feature.max_level))
    for broker in kafka.brokers.values():
        log_dirs = tuple([directory.hex() for directory in broker.log_dirs])
        values[keys.node(broker.broker_id)] = encode(NodeRecord(broker.broker_id, log_dirs, broker.rack))
    values |= dict(_topics(kafka))
    dynamic = kafka.configs.get(CLUSTER_WIDE, {})
    configs = {**kafka.configs, CLUSTER_WIDE: {**cluster_defaults(static.by_broker, dynamic), **dynamic}}
    values |= dict(_configs(configs, notes))
    notes += gateway_notes(configs[CLUSTER_WIDE])
    values |= adopted_quotas(kafka.quotas, max(1, len(kafka.brokers)), notes)
    values |= adopted_acls(kafka.acls.values(), notes)
    users = adopted_users(kafka.credentials, notes)
    if kafka.has_tokens:
        notes.append(f"delegation tokens: what the cluster has of them {_NOT_CARRIED_OVER}")
    items = tuple([KeyValue(key, value, 1, 1, 0) for key, value in sorted(values.items())])
    image = ClusterImage.from_range(RangeResult(items, 1))
    if static.unknown:
        notes.append(unknown_note(image, static.unknown))
    return Adopted(SavedMetadata(items, image, saved_ms), users, notes)


def _topics(kafka: KraftMetadata) -> Iterator[tuple[str, bytes]]:
    for topic_id, name in kafka.topics.items():
        partitions = kafka.partitions[topic_id]
        for index, partition in partitions.items():
            yield keys.partition(topic_id, index), encode(_state(name, partition))
        yield keys.topic(name), encode(Topic(name, topic_id.hex(), len(partitions), internal=name in INTERNAL_TOPICS))


def _state(topic: str, partition: PartitionAdded) -> PartitionState:
    """The state without a leader or an ISR: the rebuild asks all replicas. In Kafka the leader epoch of a coordinator's partition
    fences its markers, so it is the owner's epoch here."""
    directories = [_directory(each) for each in partition.directories] or [""] * len(partition.replicas)
    replicas = [Replica(node_id, directory) for node_id, directory in zip(partition.replicas, directories, strict=True)]
    return PartitionState(
        tuple(replicas),
        NO_LEADER,
        NO_INCARNATION,
        partition.leader_epoch,
        partition.partition_epoch,
        (),
        owner_epoch=partition.leader_epoch + 1 if topic in (GROUP_TOPIC, TRANSACTION_TOPIC) else 0,
        adding=partition.adding,
        removing=partition.removing,
    )


def _directory(directory_id: bytes) -> str:
    return directory_id.hex() if int.from_bytes(directory_id, "big") >= _FIRST_REAL_DIRECTORY else ""


def _configs(configs: Mapping[tuple[int, str], Mapping[str, str]], notes: list[str]) -> Iterator[tuple[str, bytes]]:
    for (kind, resource), given in sorted(configs.items()):
        if kind not in KINDS:
            if given:
                notes.append(f"configs of {resource!r}, of resource type {kind}: what is set there {_NOT_CARRIED_OVER}")
            continue
        if given.get(TIERED) == "true":
            raise CannotAdopt(
                f"topic {resource} has {TIERED}=true: its older records are in a remote store, which Penstock cannot read; "
                "set it to false with remote.log.delete.on.disable=true once its local log holds all that is needed"
            )
        values = {name: value for name, value in given.items() if _is_taken(kind, resource, name, value, notes)}
        if kind == definitions.TOPIC:
            values = kept_synced(resource, values)
        if values:
            yield keys.config(KINDS[kind], resource), encode(ConfigOverrides(values))


def _is_taken(kind: int, resource: str, name: str, value: str, notes: list[str]) -> bool:
    try:
        match kind:
            case definitions.TOPIC:
                definitions.validate_topic(name, value)
            case definitions.BROKER:
                definitions.validate_broker(name, value, per_broker=bool(resource))
            case definitions.GROUP:
                definitions.validate_group(name, value)
    except ConfigError as error:
        notes.append(f"{KINDS[kind]} {resource or 'default'}: {name}={value} {_NOT_CARRIED_OVER}: {error}")
        return False
    return True
