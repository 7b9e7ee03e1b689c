"""What `__consumer_offsets` holds, as facts: one class for each kind of Kafka's records, one for each of their tombstones.

`record_codec` writes them as Kafka 4.2 does. The names of Kafka's own records stand in the docstrings, with the type in the key.
A record replaces all that the record with the same key said before.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from libs.wire.primitives import NO_UUID

# Offsets


class OffsetCommitted(NamedTuple):
    """OffsetCommit (1; 0 in logs of long ago, which nobody writes).

    A tuple: most records are these, and it is made in a third of the time."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = -1
    expire_ms: int = -1
    """-1: by the group's state and offsets.retention.minutes."""
    topic_id: bytes = NO_UUID
    """NO_UUID: not known. Not kept with an `expire_ms`."""


@dataclass(frozen=True, slots=True)
class OffsetRemoved:
    group: str
    topic: str
    partition: int


# Groups of the classic protocol


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """As of the last generation that its group agreed on. Who joins or leaves since is not in the log."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """For the group's protocol alone."""
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ClassicGroupChanged:
    """GroupMetadata (2): a generation that everybody has the assignment of, or an empty group."""

    group: str
    protocol_type: str
    """"": offsets only, a simple group."""
    generation: int
    protocol: str | None
    leader: str | None
    state_changed_ms: int
    """-1: not known."""
    members: tuple[ClassicMember, ...]


@dataclass(frozen=True, slots=True)
class ClassicGroupRemoved:
    group: str


# Groups of the consumer protocol (KIP-848)


class TopicPartitions(NamedTuple):
    topic_id: bytes
    partitions: tuple[int, ...]


class MemberState(IntEnum):
    """Kafka's numbers."""

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
    """Of the topics that are subscribed to (KIP-1101); 0: of none."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupRemoved:
    group: str


class TopicSeen(NamedTuple):
    topic_id: bytes
    topic: str
    partition_count: int
    racks: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """For each partition."""


@dataclass(frozen=True, slots=True)
class ConsumerTopicsSeen:
    """ConsumerGroupPartitionMetadata (4): read only. Kafka stopped writing it in 4.1."""

    group: str
    topics: tuple[TopicSeen, ...]


@dataclass(frozen=True, slots=True)
class ConsumerTopicsRemoved:
    group: str


class ClassicProtocol(NamedTuple):
    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class SpeaksClassic:
    """What is known of a member that uses the classic protocol in a consumer group."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


@dataclass(frozen=True, slots=True)
class ConsumerMemberChanged:
    """ConsumerGroupMemberMetadata (5): what a member asks for."""

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
    classic: SpeaksClassic | None = None


@dataclass(frozen=True, slots=True)
class ConsumerMemberRemoved:
    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class TargetEpochChanged:
    """ConsumerGroupTargetAssignmentMetadata (6): for which group epoch the target assignment was made."""

    group: str
    assignment_epoch: int


@dataclass(frozen=True, slots=True)
class TargetEpochRemoved:
    group: str


@dataclass(frozen=True, slots=True)
class TargetAssignmentChanged:
    """ConsumerGroupTargetAssignmentMember (7): what a member is to have."""

    group: str
    member_id: str
    assigned: tuple[TopicPartitions, ...]


@dataclass(frozen=True, slots=True)
class TargetAssignmentRemoved:
    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class CurrentAssignmentChanged:
    """ConsumerGroupCurrentMemberAssignment (8): what a member has."""

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
    """ConsumerGroupRegularExpression (16): which topics it matched."""

    group: str
    regex: str
    topics: tuple[str, ...]
    version: int
    """Of the metadata that it was resolved with."""
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
"""All that the log holds."""
