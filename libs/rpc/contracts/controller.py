"""The requests that the elected controller answers. Any other controller answers NOT_CONTROLLER (41) as the call's error.

Every reply names the metadata revision of its effect: a caller that waits until its own image has reached it reads its own
writes. `asked_by` of a request is the client for whom a gateway asks, for the log.
"""

from dataclasses import field

from libs.lean_dataclass import dataclass

CREATE_TOPICS = "controller.create_topics"
CREATE_INTERNAL_TOPIC = "controller.create_internal_topic"
DELETE_TOPICS = "controller.delete_topics"
CREATE_PARTITIONS = "controller.create_partitions"
ALTER_CONFIGS = "controller.alter_configs"
ALTER_CLIENT_QUOTAS = "controller.alter_client_quotas"
ALTER_SCRAM_CREDENTIALS = "controller.alter_scram_credentials"
DESCRIBE_SCRAM_CREDENTIALS = "controller.describe_scram_credentials"
CREATE_ACLS = "controller.create_acls"
DELETE_ACLS = "controller.delete_acls"
ALLOCATE_PRODUCER_IDS = "controller.allocate_producer_ids"
ASSIGN_DIRS = "controller.assign_dirs"
ALTER_PARTITIONS = "controller.alter_partitions"
WITHDRAW = "controller.withdraw"
ELECT_LEADERS = "controller.elect_leaders"
ALTER_REASSIGNMENTS = "controller.alter_reassignments"
UNREGISTER_BROKER = "controller.unregister_broker"
UPDATE_FEATURES = "controller.update_features"
HEARTBEAT = "controller.heartbeat"


@dataclass(frozen=True, slots=True)
class MutatingClient:
    """The client whose `controller_mutation_rate` limits a request (KIP-599). `strict`: its version of the API is refused what is
    beyond the quota. Otherwise it is done, and the client waits afterwards."""

    user: str
    client_id: str  # "": it has none
    strict: bool


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partitions: int  # -1: the cluster's default
    replication_factor: int  # -1: the cluster's default
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()  # (partition, broker ids)
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTopics:
    topics: tuple[NewTopic, ...]
    validate_only: bool = False
    asked_by: str = field(default="", compare=False)
    client: MutatingClient | None = None  # None: no quota limits it


@dataclass(frozen=True, slots=True)
class TopicResult:
    name: str
    error: int
    message: str | None = None
    topic_id: bytes = b"\0" * 16
    partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True)
class TopicsReply:
    topics: tuple[TopicResult, ...]
    revision: int
    throttle_ms: int = 0  # how long the client is to wait, since its quota is used up


@dataclass(frozen=True, slots=True)
class CreateInternalTopic:
    """Creates the topic of the group coordinators, as the broker configs `offsets.topic.*` say. Answered with TopicsReply: error
    0 also where the topic exists; INVALID_REPLICATION_FACTOR where it takes more nodes than there are."""

    name: str
    asked_by: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class TopicRef:
    """A topic, by name, or by id when `name` is None."""

    name: str | None
    topic_id: bytes = b"\0" * 16


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    topics: tuple[TopicRef, ...]
    asked_by: str = field(default="", compare=False)
    client: MutatingClient | None = None  # None: no quota limits it


@dataclass(frozen=True, slots=True)
class MorePartitions:
    name: str
    count: int  # the new total
    assignments: tuple[tuple[int, ...], ...] | None = None  # broker ids of each added partition


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    topics: tuple[MorePartitions, ...]
    validate_only: bool = False
    asked_by: str = field(default="", compare=False)
    client: MutatingClient | None = None  # None: no quota limits it


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """`operation`: 0 set, 1 delete, 2 append, 3 subtract (KIP-339)."""

    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """`resource_type` as in Kafka: 2 topic, 4 broker ("" is the cluster-wide default), 32 group."""

    resource_type: int
    name: str
    changes: tuple[ConfigChange, ...]
    replace: bool = False  # AlterConfigs: configs that are not named return to their default


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    resources: tuple[ConfigResource, ...]
    validate_only: bool = False
    asked_by: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ConfigResult:
    resource_type: int
    name: str
    error: int
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AlterConfigsReply:
    resources: tuple[ConfigResult, ...]
    revision: int


QuotaEntityParts = tuple[tuple[str, str | None], ...]
"""The parts of an entity as a client names them: (type, name), each type once, sorted by type. Name None: the default."""


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """`value` None: the quota is removed."""

    key: str
    value: float | None


@dataclass(frozen=True, slots=True)
class EntityQuotas:
    """The changes of one entity's quotas. All of them are made, or none."""

    entity: QuotaEntityParts
    changes: tuple[QuotaChange, ...]


@dataclass(frozen=True, slots=True)
class AlterClientQuotas:
    """A request to change client quotas (KIP-546)."""

    entities: tuple[EntityQuotas, ...]
    validate_only: bool = False
    asked_by: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class EntityQuotasResult:
    entity: QuotaEntityParts
    error: int
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AlterClientQuotasReply:
    entities: tuple[EntityQuotasResult, ...]  # each entity of the request once
    revision: int


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    user: str
    mechanism: int  # Kafka's number of it


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A new credential. The gateway has made the two keys of the salted password, which goes no further."""

    user: str
    mechanism: int  # Kafka's number of it
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion(user={self.user!r}, mechanism={self.mechanism}, iterations={self.iterations}, [hidden])"


@dataclass(frozen=True, slots=True)
class AlterScramCredentials:
    """A request to change users' SCRAM credentials (KIP-554). All of its changes that are not refused are made together."""

    deletions: tuple[ScramDeletion, ...]
    upsertions: tuple[ScramUpsertion, ...]
    asked_by: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ScramResult:
    user: str
    error: int
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AlterScramCredentialsReply:
    users: tuple[ScramResult, ...]  # each user of the request once
    revision: int


@dataclass(frozen=True, slots=True)
class DescribeScramCredentials:
    asked_by: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ScramUser:
    user: str
    credentials: tuple[tuple[int, int], ...]  # of each mechanism, by Kafka's number of it: the iterations


@dataclass(frozen=True, slots=True)
class DescribeScramCredentialsReply:
    """All users that have a credential."""

    users: tuple[ScramUser, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Acl:
    """An ACL by Kafka's numbers, as a client gives them: some may stand for nothing."""

    resource_type: int
    pattern_type: int
    name: str
    principal: str
    host: str
    operation: int
    permission: int


@dataclass(frozen=True, slots=True)
class CreateAcls:
    acls: tuple[Acl, ...]
    asked_by: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class AclResult:
    error: int
    message: str | None = None
    created: bool = False  # False with error 0: there was one already


@dataclass(frozen=True, slots=True)
class CreateAclsReply:
    results: tuple[AclResult, ...]  # in the order of the request
    revision: int


@dataclass(frozen=True, slots=True)
class FilteredAcls:
    """A filter of ACLs, which are deleted if they fit all of it (`libs/cluster/acls.py`)."""

    resource_type: int
    pattern_type: int
    name: str | None
    principal: str | None
    host: str | None
    operation: int
    permission: int


@dataclass(frozen=True, slots=True)
class DeleteAcls:
    filters: tuple[FilteredAcls, ...]
    asked_by: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class DeletedAcls:
    """What one filter deleted. An ACL that several filters match is told for each."""

    error: int
    message: str | None = None
    acls: tuple[Acl, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteAclsReply:
    filters: tuple[DeletedAcls, ...]  # in the order of the request
    revision: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    pass


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Producer ids [first, first + count). A block is never handed out twice, whoever crashes."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class AssignDirs:
    """The places of a storage node's replicas, now or soon: (topic id, partition, log-directory id as 32 hex digits)."""

    node_id: int
    incarnation: int
    placements: tuple[tuple[bytes, int, str], ...]
    verified: tuple[tuple[bytes, int], ...] = ()
    """The placements whose log is complete there, while the directory in the state was looked into and holds nothing of it. So
    they may leave that directory also when it is gone."""


@dataclass(frozen=True, slots=True)
class AssignDirsReply:
    revision: int


@dataclass(frozen=True, slots=True)
class NewIsr:
    """The ISR that a leader proposes for one partition. The controller compares (leader epoch, partition epoch) before it sets
    the ISR."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]  # (node id, the incarnation in which the replica is in sync), the leader included
    durable: bool = False  # all committed records are on the disks of all members, and the leader commits no others


@dataclass(frozen=True, slots=True)
class AlterPartitions:
    """The request of a leader's node, for all of its partitions together (AlterPartition, KIP-497)."""

    node_id: int
    incarnation: int
    partitions: tuple[NewIsr, ...]


@dataclass(frozen=True, slots=True)
class AlteredPartition:
    """The outcome for one partition. `error` 0: the ISR was applied, or was in the state already. Others as in Kafka: 3
    UNKNOWN_TOPIC_OR_PARTITION, 41 NOT_CONTROLLER, 74 FENCED_LEADER_EPOCH, 42 INVALID_REQUEST, 95 INVALID_UPDATE_VERSION, 107
    INELIGIBLE_REPLICA, 108 NEW_LEADER_ELECTED. The other fields are the state that holds now."""

    error: int
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class AlterPartitionsReply:
    partitions: tuple[AlteredPartition, ...]  # in the order of the request
    revision: int


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Replicas that a node cannot serve, though their directory is there: the logs of `partitions` are damaged. They leave the
    ISR where another member is left, and their node does not lead them. A node sends this before it registers, too."""

    node_id: int
    incarnation: int
    partitions: tuple[tuple[bytes, int], ...]  # (topic id, partition)
    # replicas that were withdrawn and are served again, since an operator accepted the loss
    restored: tuple[tuple[bytes, int], ...] = ()
    # replicas that cannot be served for now, or not completely: they stay where no other replica is in sync
    for_now: tuple[tuple[bytes, int], ...] = ()


@dataclass(frozen=True, slots=True)
class WithdrawReply:
    revision: int


PREFERRED, UNCLEAN = 0, 1


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """A request for elections (KIP-460). `partitions` None: all partitions that need one."""

    election_type: int  # PREFERRED, UNCLEAN
    partitions: tuple[tuple[str, int], ...] | None
    asked_by: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ElectedLeader:
    topic: str
    partition: int
    error: int
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ElectLeadersReply:
    partitions: tuple[ElectedLeader, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment of one partition (KIP-455). `replicas` None: a reassignment in progress is cancelled."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class AlterReassignments:
    partitions: tuple[Reassignment, ...]
    allow_replication_factor_change: bool = True
    asked_by: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ReassignmentResult:
    topic: str
    partition: int
    error: int
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AlterReassignmentsReply:
    partitions: tuple[ReassignmentResult, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class UnregisterBroker:
    node_id: int
    asked_by: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class UnregisterBrokerReply:
    revision: int


UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""Kafka's numbers of upgrade types. Any other is unknown."""


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    name: str
    level: int
    upgrade_type: int


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    """New finalized levels of features (KIP-584). Either all of them change, or the call fails and none does."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False
    asked_by: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class UpdateFeaturesReply:
    revision: int
    changed: tuple[tuple[str, int], ...] = ()  # (feature, level), without levels that were finalized already


FINDINGS_MAX = 10
"""The most findings of one heartbeat, the longest first."""
FINDING_NAME_LENGTH_MAX = 64
"""The characters of a name that a finding keeps: clients choose how long names are."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What takes longer than it may, and is no fault of a process: an operator wants to know. `kind` is a word of
    `libs/cluster/health.py`, which a reader may not know yet."""

    kind: str
    name: str
    since_ms: int  # wall time


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The heartbeat of every process but controllers to every controller, elected or not. All controllers answer, so that both
    sides know of each other."""

    role: str
    node_id: int
    incarnation: int
    revision: int  # of the sender's image
    unreachable: tuple[int, ...] = ()  # storage nodes that do not answer the sender, and refuse it nothing either
    findings: tuple[Finding, ...] = ()  # at most FINDINGS_MAX


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    elected: bool
    revision: int  # of the controller's image
