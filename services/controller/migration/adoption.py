"""The taking over of a stopped Kafka cluster: what its log directories hold, as the content of an empty metadata store."""

from collections.abc import Sequence
from dataclasses import replace

from libs.commitlog.files.filesystem import FileSystem
from libs.lean_dataclass import dataclass
from services.controller.core.administration.first_users import Users
from services.controller.core.migration.errors import CannotAdopt
from services.controller.core.migration.from_kafka import StaticConfigs, adopted
from services.controller.core.migration.kraft_metadata import KraftMetadata
from services.controller.core.recovery.node_holdings import UNKNOWN_TOPIC, NodeHoldings, Source
from services.controller.core.recovery.rebuilt_metadata import Rebuilt, rebuild
from services.controller.migration.kafka_directories import KafkaNode, refuse_mixture
from services.controller.migration.metadata_log import DIRECTORY, LogEnd, MetadataLog
from services.controller.recovery.disk_reading import DiskReading


@dataclass(frozen=True, slots=True)
class Adoption:
    """The content of the new store, and what to tell."""

    rebuilt: Rebuilt
    cluster_id: str
    users: Users
    notes: tuple[str, ...]


def adoption_of(fs: FileSystem, nodes: Sequence[KafkaNode], *, feature_level: int, now_ms: int) -> Adoption:
    """Reads everything, and changes nothing. Raises CannotAdopt, RecoveryRefused, OSError."""
    refuse_mixture(nodes)
    kafka = _newest_metadata(fs, nodes)
    _refuse_missing(nodes, kafka)
    cluster_id = nodes[0].cluster_id
    found = adopted(kafka, cluster_id, _static_configs(nodes), feature_level=feature_level, saved_ms=now_ms)
    holdings: list[NodeHoldings] = []
    strays: list[str] = []
    for node in [node for node in nodes if node.log_dirs]:
        kept, unknown = _known(_holdings_of(fs, node), kafka)
        holdings.append(kept)
        strays += [f"{path}: Kafka's metadata do not know it: the storage node sets it aside" for path in unknown]
    # Nothing was lost: a topic that Kafka's metadata lack was deleted.
    rebuilt = rebuild(holdings, [Source("Kafka's metadata", found.saved)], feature_level=feature_level, now_ms=0)
    return Adoption(rebuilt, cluster_id, found.users, (*found.notes, *strays, *rebuilt.notes))


def _refuse_missing(nodes: Sequence[KafkaNode], kafka: KraftMetadata) -> None:
    """Raises CannotAdopt if a broker that has replicas was not given: its partitions would wait for it for ever."""
    holders = {node_id for topic in kafka.partitions.values() for partition in topic.values() for node_id in partition.replicas}
    if missing := sorted(holders - {node.node_id for node in nodes}):
        listed = ", ".join(map(str, missing))
        raise CannotAdopt(f"broker {listed} has replicas, and its directories were not given: give those of all brokers")


def _static_configs(nodes: Sequence[KafkaNode]) -> StaticConfigs:
    brokers = [node for node in nodes if node.log_dirs]
    known = {node.node_id: node.properties for node in brokers if node.properties is not None}
    return StaticConfigs(known, sorted({node.node_id for node in brokers} - known.keys()))


def _newest_metadata(fs: FileSystem, nodes: Sequence[KafkaNode]) -> KraftMetadata:
    """The metadata of the log that a quorum of these nodes would elect."""
    newest: tuple[LogEnd, KraftMetadata] | None = None
    for node in nodes:
        if node.metadata_dir:
            log = MetadataLog(fs, f"{node.metadata_dir}/{DIRECTORY}")
            metadata = log.read()
            if newest is None or log.end > newest[0]:
                newest = log.end, metadata
    if newest is None:
        raise CannotAdopt(
            f"none of these has a {DIRECTORY}: give a controller's, too, by the server.properties that names its metadata.log.dir"
        )
    return newest[1]


def _holdings_of(fs: FileSystem, node: KafkaNode) -> NodeHoldings:
    return DiskReading(fs).read(node.log_dirs[0], node.log_dirs)


def _known(held: NodeHoldings, kafka: KraftMetadata) -> tuple[NodeHoldings, list[str]]:
    """The holdings of topics that Kafka's metadata know, and the names of the other directories."""
    known = {topic_id.hex() for topic_id in kafka.topics} | {UNKNOWN_TOPIC}
    unknown = [each for each in held.partitions if each.topic_id not in known]
    kept = replace(held, partitions=tuple([each for each in held.partitions if each.topic_id in known]), deleted=())
    return kept, [f"{each.topic}-{each.partition}" for each in unknown if f"{each.topic}-{each.partition}" != DIRECTORY]
