"""What the elected controller answers. Any other controller answers NOT_CONTROLLER (41) as the call's error.

Every reply names the metadata revision of its effect: a caller that waits until its own image has reached it reads its own
writes.
"""

from dataclasses import dataclass

CREATE_TOPICS = "controller.create_topics"
DELETE_TOPICS = "controller.delete_topics"
CREATE_PARTITIONS = "controller.create_partitions"
ALTER_CONFIGS = "controller.alter_configs"
ALLOCATE_PRODUCER_IDS = "controller.allocate_producer_ids"
ASSIGN_DIRS = "controller.assign_dirs"


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


@dataclass(frozen=True, slots=True)
class TopicRef:
    """By name, or by id when `name` is None."""

    name: str | None
    topic_id: bytes = b"\0" * 16


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    topics: tuple[TopicRef, ...]


@dataclass(frozen=True, slots=True)
class MorePartitions:
    name: str
    count: int  # the new total
    assignments: tuple[tuple[int, ...], ...] | None = None  # broker ids of each added partition


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    topics: tuple[MorePartitions, ...]
    validate_only: bool = False


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
    replace: bool = False  # AlterConfigs: what is not named goes back to its default


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    resources: tuple[ConfigResource, ...]
    validate_only: bool = False


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
    """A storage node tells where it put its replicas: (topic id, partition, log-directory id as 32 hex digits)."""

    node_id: int
    incarnation: int
    placements: tuple[tuple[bytes, int, str], ...]


@dataclass(frozen=True, slots=True)
class AssignDirsReply:
    revision: int
