"""Records of `__consumer_offsets` as facts: one class for each kind of Kafka's records, and one for each of their tombstones.

`record_codec` writes them as Kafka 4.2 does. Docstrings name Kafka's record, with the type in its key. A record replaces the
earlier record with the same key.
"""

from enum import IntEnum
from typing import NamedTuple, TypeAlias

from libs.lean_dataclass import dataclass
from libs.wire.primitives import NO_UUID

# Offsets


class OffsetCommitted(NamedTuple):
    """OffsetCommit (1; 0 in very old logs, and no longer written).

    A tuple: most records are these, and a tuple is made in a third of the time.
    """

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = -1
    expire_ms: int = -1
    """-1: the offset expires by the group's state and offsets.retention.minutes."""
    topic_id: bytes = NO_UUID
    """NO_UUID: unknown. The log does not keep it together with an `expire_ms`."""


@dataclass(frozen=True, slots=True)
class OffsetRemoved:
    group: str
    topic: str
    partition: int


class OffsetPending(NamedTuple):
    """OffsetCommit (1) in a transactional batch: it takes effect if its transaction is committed."""

    producer_id: int
    producer_epoch: int
    committed: OffsetCommitted


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """The marker of a producer's transaction, in a control batch of its own. It is the end of the producer's pending offsets in
    this shard."""

    producer_id: int
    producer_epoch: int
    commits: bool
    coordinator_epoch: int
    """The owner epoch of the transaction's shard of `__transaction_state`."""


# Groups of the classic protocol


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """A member of the last generation that its group agreed on. Members that joined or left since are not in the log."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The subscription for the group's protocol."""
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ClassicGroupChanged:
    """GroupMetadata (2): a generation in which every member has its assignment, or an empty group."""

    group: str
    protocol_type: str
    """"" for a simple group, which has offsets only."""
    generation: int
    protocol: str | None
    leader: str | None
    state_changed_ms: int
    """-1: unknown."""
    members: tuple[ClassicMember, ...]


@dataclass(frozen=True, slots=True)
class ClassicGroupRemoved:
    group: str


# Groups of the consumer protocol (KIP-848)


class TopicPartitions(NamedTuple):
    topic_id: bytes
    partitions: tuple[int, ...]


class MemberState(IntEnum):
    """The states of a member, with Kafka's numbers."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ConsumerGroupChanged:
    """ConsumerGroupMetadata (3)."""

    group: str
    epoch: int
    metadata_hash: int = 0
    """Hash of the subscribed topics (KIP-1101); 0 for none."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupRemoved:
    group: str


class TopicSeen(NamedTuple):
    topic_id: bytes
    topic: str
    partition_count: int
    racks: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """The racks of each partition."""


@dataclass(frozen=True, slots=True)
class ConsumerTopicsSeen:
    """ConsumerGroupPartitionMetadata (4). It is only read: Kafka stopped writing it in 4.1."""

    group: str
    topics: tuple[TopicSeen, ...]


@dataclass(frozen=True, slots=True)
class ConsumerTopicsRemoved:
    group: str


class ClassicProtocol(NamedTuple):
    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    """Metadata of a classic member in a consumer group."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


@dataclass(frozen=True, slots=True)
class ConsumerMemberChanged:
    """ConsumerGroupMemberMetadata (5): a member's metadata."""

    group: str
    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    subscribed_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMemberMetadata | None = None


@dataclass(frozen=True, slots=True)
class ConsumerMemberRemoved:
    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class TargetEpochChanged:
    """ConsumerGroupTargetAssignmentMetadata (6): the group epoch of the target assignment."""

    group: str
    assignment_epoch: int


@dataclass(frozen=True, slots=True)
class TargetEpochRemoved:
    group: str


@dataclass(frozen=True, slots=True)
class TargetAssignmentChanged:
    """ConsumerGroupTargetAssignmentMember (7): a member's target assignment."""

    group: str
    member_id: str
    assigned: tuple[TopicPartitions, ...]


@dataclass(frozen=True, slots=True)
class TargetAssignmentRemoved:
    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class CurrentAssignmentChanged:
    """ConsumerGroupCurrentMemberAssignment (8): a member's current assignment."""

    group: str
    member_id: str
    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned: tuple[TopicPartitions, ...]
    pending_revocation: tuple[TopicPartitions, ...]


@dataclass(frozen=True, slots=True)
class CurrentAssignmentRemoved:
    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RegularExpressionResolved:
    """ConsumerGroupRegularExpression (16): the topics that an expression matched."""

    group: str
    regex: str
    topics: tuple[str, ...]
    version: int
    """The version of the metadata that it was resolved with."""
    resolved_ms: int


@dataclass(frozen=True, slots=True)
class RegularExpressionRemoved:
    group: str
    regex: str


Removed: TypeAlias = (
    OffsetRemoved
    | ClassicGroupRemoved
    | ConsumerGroupRemoved
    | ConsumerTopicsRemoved
    | ConsumerMemberRemoved
    | TargetEpochRemoved
    | TargetAssignmentRemoved
    | CurrentAssignmentRemoved
    | RegularExpressionRemoved
)
"""Tombstones."""

Record: TypeAlias = (
    OffsetCommitted
    | ClassicGroupChanged
    | ConsumerGroupChanged
    | ConsumerTopicsSeen
    | ConsumerMemberChanged
    | TargetEpochChanged
    | TargetAssignmentChanged
    | CurrentAssignmentChanged
    | RegularExpressionResolved
    | Removed
)
"""All records of groups that the log holds."""

Logged: TypeAlias = Record | OffsetPending | TransactionEnded
"""All records that the log holds."""
