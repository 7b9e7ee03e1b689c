"""A stopped cluster's metadata as records of Kafka's metadata log, with which a new Kafka begins.

Topics keep their ids, partitions their replicas, log directories and leader epochs, so that Kafka opens the logs as its own.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from libs.cluster.configs.definitions import KINDS
from libs.cluster.configs.resolve import BY_FACTOR, MIN_IN_SYNC, default_min_in_sync, effective_topic_config
from libs.cluster.image import ClusterImage
from libs.cluster.records import PartitionState
from libs.cluster.topic_names import INTERNAL_TOPICS
from libs.lean_dataclass import dataclass
from libs.wire.primitives import NO_UUID
from services.controller.core.administration.first_users import Users
from services.controller.core.elections.leader_election import NO_INCARNATION, NO_LEADER
from services.controller.core.migration.kafka_security import returned_acls, returned_users
from services.controller.core.migration.kraft_partitions import PartitionAdded
from services.controller.core.migration.kraft_records import (
    BrokerRegistered,
    ConfigSet,
    EncodedRecord,
    ProducerIdsTaken,
    TopicAdded,
)
from services.controller.core.topics.internal_topic_configs import DURABILITY

OWN_CONFIGS: Final = (
    DURABILITY,
    "record.validation",
    "producer.ids.max",
    "log.durability",
    "log.record.validation",
    "log.producer.ids.max",
    "decommission",
)
OWN_PREFIX: Final = "self.balancing."
KINDS_BY_NAME: Final[Mapping[str, int]] = {kind: number for number, kind in KINDS.items()}
BROKER_EPOCH: Final = 0
"""The epoch in which each broker counts as stopped cleanly. Its log directories name it, too (`.kafka_cleanshutdown`). Kafka
takes a broker out of the ISR when the two differ."""
STATIC_CONFIGS_NOTE: Final = (
    "what PENSTOCK_BROKER_CONFIGS gave to storage nodes is in no metadata: put it into Kafka's server.properties first"
)
NO_CREDENTIALS_NOTE: Final = (
    "users' SCRAM credentials are not asked for (CREDENTIALS=1), so Kafka gets none: set passwords again with kafka-configs.sh"
)


class CannotGiveBack(Exception):
    """What Kafka could not go on with. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class GivenBack:
    """The records in their order, and what of the cluster's metadata is not among them."""

    records: tuple[EncodedRecord, ...]
    notes: tuple[str, ...]


def given_back(image: ClusterImage, users: Users | None) -> GivenBack:
    """`users` None: their credentials are not asked for. Raises CannotGiveBack."""
    notes = [STATIC_CONFIGS_NOTE]
    records = [
        *_brokers(image),
        *_topics(image),
        *_configs(image, notes),
        *_least_in_sync(image),
        ProducerIdsTaken(image.next_producer_id),
        *returned_acls(image.acls),
        *returned_users(users or {}),
    ]
    if image.acls:
        notes.append(f"{len(image.acls)} ACLs: Kafka obeys them if its server.properties name StandardAuthorizer")
    if users:
        notes.append(f"{len(users)} SCRAM credentials of users are in each bootstrap.checkpoint: keep it as a secret")
    elif users is None:
        notes.append(NO_CREDENTIALS_NOTE)
    if image.client_quotas:
        notes.append(
            f"client quotas of {len(image.client_quotas)} entities: Kafka's hold for each broker, so it does not get them"
        )
    return GivenBack(tuple(records), tuple(notes))


def _brokers(image: ClusterImage) -> Iterator[EncodedRecord]:
    for node_id, node in sorted(image.nodes.items()):
        yield BrokerRegistered(node_id, node.rack, tuple([bytes.fromhex(directory) for directory in node.log_dirs]), BROKER_EPOCH)


def _topics(image: ClusterImage) -> Iterator[EncodedRecord]:
    for name, topic in sorted(image.topics.items()):
        topic_id = bytes.fromhex(topic.topic_id)
        yield TopicAdded(name, topic_id)
        for index, state in enumerate(image.partitions_of(topic_id)):
            if state is None:
                raise CannotGiveBack(f"{name}-{index} has no state yet: `make up`, wait until it is healthy, then `make down`")
            yield _partition(name, topic_id, index, state)


def _partition(name: str, topic_id: bytes, index: int, state: PartitionState) -> PartitionAdded:
    in_sync = tuple([member.node_id for member in state.isr])
    if any(member.incarnation == NO_INCARNATION for member in state.isr):
        raise CannotGiveBack(
            f"{name}-{index} is in doubt: which of nodes {', '.join(map(str, in_sync))} has all of its records is not known. "
            "`make up`, wait until `make status` says that it is healthy, then `make down`"
        )
    if state.withdrawn:
        damaged = ", ".join(str(member.node_id) for member in state.withdrawn)
        raise CannotGiveBack(f"the log of {name}-{index} on node {damaged} is damaged: mend it first (docs/operate)")
    return PartitionAdded(
        topic_id,
        index,
        tuple([replica.node_id for replica in state.replicas]),
        in_sync,
        NO_LEADER,
        # A coordinator's markers carry its owner epoch, which Kafka compares with the leader epoch of the partition.
        max(state.leader_epoch, state.owner_epoch) + 1,
        state.partition_epoch,
        state.removing,
        state.adding,
        tuple([bytes.fromhex(replica.log_dir_id) if replica.log_dir_id else NO_UUID for replica in state.replicas]),
    )


def _configs(image: ClusterImage, notes: list[str]) -> Iterator[EncodedRecord]:
    for (kind, resource), values in sorted(image.overrides_by_resource.items()):
        for name, value in sorted(values.items()):
            if kind == "topic" and resource in INTERNAL_TOPICS and name == DURABILITY:
                continue
            if name in OWN_CONFIGS or name.startswith(OWN_PREFIX):
                notes.append(f"{kind} {resource or 'default'}: {name}={value} is Penstock's own, and Kafka does not get it")
            else:
                yield ConfigSet(KINDS_BY_NAME[kind], resource, name, value)


def _least_in_sync(image: ClusterImage) -> Iterator[EncodedRecord]:
    """The `min.insync.replicas` that nobody configured: 2 here for three replicas, and 1 in Kafka, where one broker could then
    have the only copy of an acknowledged record."""
    for name, topic in sorted(image.topics.items()):
        factors = [state.replication_factor for state in image.partitions_of(bytes.fromhex(topic.topic_id)) if state is not None]
        least = default_min_in_sync(min(factors, default=1))
        if least > 1 and effective_topic_config(image, name).min_insync_replicas == BY_FACTOR:
            yield ConfigSet(KINDS_BY_NAME["topic"], name, MIN_IN_SYNC, str(least))
