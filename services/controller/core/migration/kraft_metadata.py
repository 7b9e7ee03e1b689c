"""The state that the records of Kafka's metadata log come to."""

from collections.abc import Iterable
from dataclasses import field, replace
from typing import assert_never

from libs.cluster.configs.definitions import TOPIC
from libs.cluster.scram_credentials import ScramCredential
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.controller import Acl, QuotaEntityParts
from services.controller.core.migration.kraft_partitions import PartitionAdded, PartitionChanged
from services.controller.core.migration.kraft_records import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ConfigSet,
    FeatureLevelSet,
    KraftRecord,
    ProducerIdsTaken,
    QuotaSet,
    TopicAdded,
    TopicRemoved,
    TransactionBegun,
    TransactionEnded,
    UnreadableRecord,
)
from services.controller.core.migration.kraft_security import AclAdded, AclRemoved, ScramRemoved, ScramSet, TokenChanged


@dataclass(slots=True)
class KraftMetadata:
    """A Kafka cluster's metadata. Only `replay` changes it."""

    topics: dict[bytes, str] = field(default_factory=dict)
    partitions: dict[bytes, dict[int, PartitionAdded]] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    brokers: dict[int, BrokerRegistered] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    acls: dict[bytes, Acl] = field(default_factory=dict)
    credentials: dict[tuple[str, int], ScramCredential] = field(default_factory=dict)
    """By user and Kafka's number of the SCRAM mechanism."""
    has_tokens: bool = False
    """Whether some record was about delegation tokens."""
    quotas: dict[QuotaEntityParts, dict[str, float]] = field(default_factory=dict)
    """The client quotas of each entity by name."""

    def replay(self, records: Iterable[KraftRecord]) -> None:
        """Takes in records in the order of the log. Raises UnreadableRecord where one contradicts those before it."""
        held_back: list[KraftRecord] | None = None
        for record in records:
            match record:
                case TransactionBegun():
                    held_back = []
                case TransactionEnded(commits):
                    for each in (held_back or []) if commits else []:
                        self._apply(each)
                    held_back = None
                case _ if held_back is not None:
                    held_back.append(record)
                case _:
                    self._apply(record)

    def _apply(self, record: KraftRecord) -> None:
        match record:
            case TopicAdded(name, topic_id):
                self.topics[topic_id] = name
                self.partitions[topic_id] = {}
            case TopicRemoved(topic_id):
                self.configs.pop((TOPIC, self._name_of(topic_id)), None)
                del self.topics[topic_id], self.partitions[topic_id]
            case PartitionAdded():
                self._name_of(record.topic_id)
                self.partitions[record.topic_id][record.index] = record
            case PartitionChanged():
                self._change(record)
            case ConfigSet():
                self._set(record)
            case BrokerRegistered():
                self.brokers[record.broker_id] = record
            case BrokerChanged(broker_id, log_dirs):
                if log_dirs and broker_id in self.brokers:
                    self.brokers[broker_id] = replace(self.brokers[broker_id], log_dirs=log_dirs)
            case BrokerUnregistered(broker_id):
                self.brokers.pop(broker_id, None)
            case FeatureLevelSet(name, level):
                self.features[name] = level
            case ProducerIdsTaken(next_producer_id):
                self.next_producer_id = next_producer_id
            case QuotaSet():
                self._set_quota(record)
            case AclAdded(acl_id, acl):
                self.acls[acl_id] = acl
            case AclRemoved(acl_id):
                self.acls.pop(acl_id, None)
            case ScramSet(user, mechanism, credential):
                self.credentials[user, mechanism] = credential
            case ScramRemoved(user, mechanism):
                self.credentials.pop((user, mechanism), None)
            case TokenChanged():
                self.has_tokens = True
            case TransactionBegun() | TransactionEnded():
                raise AssertionError("replay takes these")
            case _:
                assert_never(record)

    def _name_of(self, topic_id: bytes) -> str:
        if topic_id not in self.topics:
            raise UnreadableRecord(f"a record of topic id {topic_id.hex()}, which no record before it names")
        return self.topics[topic_id]

    def _change(self, change: PartitionChanged) -> None:
        self._name_of(change.topic_id)
        before = self.partitions[change.topic_id].get(change.index)
        if before is None:
            raise UnreadableRecord(f"a change of partition {change.index} of {self.topics[change.topic_id]}, which is not there")
        replicas = change.replicas if change.replicas is not None else before.replicas
        directories = change.directories if change.directories is not None else before.directories
        self.partitions[change.topic_id][change.index] = replace(
            before,
            replicas=replicas,
            isr=before.isr if change.isr is None else change.isr,
            leader=before.leader if change.leader is None else change.leader,
            leader_epoch=before.leader_epoch + (change.leader is not None),
            partition_epoch=before.partition_epoch + 1,
            removing=before.removing if change.removing is None else change.removing,
            adding=before.adding if change.adding is None else change.adding,
            directories=directories if len(directories) == len(replicas) else (),
        )

    def _set(self, record: ConfigSet) -> None:
        values = self.configs.setdefault((record.resource_type, record.resource), {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value

    def _set_quota(self, record: QuotaSet) -> None:
        values = self.quotas.setdefault(record.entity, {})
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
