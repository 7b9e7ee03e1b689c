"""The requests that a storage node answers, to gateways and coordinators. Offsets are absolute, sizes are bytes.

Batches and records travel in the payload, never in the body. Partitions are named by topic id, so that a deleted and re-created
topic can never receive the old one's requests.
"""

from libs.lean_dataclass import dataclass

APPEND = "storage.append"
FETCH = "storage.fetch"
LIST_OFFSETS = "storage.list_offsets"
DELETE_RECORDS = "storage.delete_records"
OPEN_FILE = "storage.open_file"
END_OF_EPOCH = "storage.end_of_epoch"
LOG_ENDS = "storage.log_ends"
DESCRIBE_PRODUCERS = "storage.describe_producers"
DESCRIBE_LOG_DIRS = "storage.describe_log_dirs"
ALTER_LOG_DIRS = "storage.alter_log_dirs"


@dataclass(frozen=True, slots=True)
class AppendPartition:
    topic_id: bytes  # 16
    partition: int
    leader_epoch: int  # as the caller's image has it
    length: int  # this partition's share of the payload, which holds the batches in the order of `partitions`
    # For an internal topic, whose only writer is its owner (contracts/ownership.py). Without a batch the answer only says whether
    # the claim still holds. Errors: 16 NOT_COORDINATOR, a newer owner; 1 OFFSET_OUT_OF_RANGE, 6 NOT_LEADER_OR_FOLLOWER, 74
    # FENCED_LEADER_EPOCH, claim again.
    owner_epoch: int = -1
    claim: int = -1
    expected_offset: int = -1  # where the log must end


@dataclass(frozen=True, slots=True)
class Append:
    acks: int  # 0, 1, -1
    timeout_ms: int
    partitions: tuple[AppendPartition, ...]
    transactional_id: str | None = None
    revision: int = -1  # of the image that the caller acts on: a node whose image is older waits for its own before it refuses
    # Of the client's Produce, where it has a transactional id: it says which errors the client knows, and who adds partitions.
    produce_version: int = 0
    joined: bool = False  # each batch is of another client's request, and its part in ids of traces is its index


@dataclass(frozen=True, slots=True)
class Appended:
    """The outcome for one batch. `error` 0: it is stored as `acks` asks. With 6 NOT_LEADER_OR_FOLLOWER, `leader` and
    `leader_epoch` are hints (-1: unknown).

    `in_log`, with an error: the batch is in the log of a node that is no longer leader. The next leader may have it or not.
    """

    error: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()  # (index in the batch, message)
    leader: int = -1
    leader_epoch: int = -1
    in_log: bool = False


@dataclass(frozen=True, slots=True)
class AppendReply:
    partitions: tuple[Appended, ...]  # in the order of the request
    # What sampled clients wrote into compressed batches that the leader opened, packed as in an RPC header (`rpc_context.py`).
    contexts: bytes | None = None


@dataclass(frozen=True, slots=True)
class FetchPartition:
    topic_id: bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class Fetch:
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: int  # 0 read_uncommitted, 1 read_committed
    partitions: tuple[FetchPartition, ...]
    inline: bool = False  # True: bytes in the payload (no shared kernel). False: file ranges, opened with OPEN_FILE
    replica_id: int = -1
    rack: str = ""  # of the consumer: a leader may name a replica that is nearer (KIP-392)
    as_follower: bool = False  # answer also for partitions that the node only follows, up to the high watermark that it knows
    first_bytes: int = 0  # inline only: answer at most so many bytes of each partition, though that cuts a batch. 0: all


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes [position, position + length) of a file that this incarnation of the node calls `file_id`. They are never
    rewritten."""

    file_id: int
    position: int
    length: int


@dataclass(frozen=True, slots=True)
class Fetched:
    error: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    ranges: tuple[FileRange, ...] = ()  # empty when inline
    inline_length: int = 0  # this partition's share of the payload
    aborted: tuple[tuple[int, int], ...] = ()  # (producer id, first offset)
    diverging_epoch: int = -1
    diverging_end_offset: int = -1
    leader: int = -1
    leader_epoch: int = -1
    readable_to: int = -1  # the last range's file has committed batches up to this position, for a caller that reads on
    preferred_read_replica: int = -1  # read there instead
    # For readers of committed records: (producer id, first offset, marker's offset) of each aborted transaction that may have
    # batches before `readable_to`, for a caller that reads on.
    aborted_ahead: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class FetchReply:
    partitions: tuple[Fetched, ...]
    waited_ms: int = 0  # as the caller asked: for bytes, and not for a disk


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A request for a read-only descriptor, which SCM_RIGHTS passes with the reply. Unix sockets only."""

    file_id: int


@dataclass(frozen=True, slots=True)
class OpenFileReply:
    exists: bool  # False: the file was deleted meanwhile; fetch again


@dataclass(frozen=True, slots=True)
class ListOffsetsPartition:
    topic_id: bytes
    partition: int
    timestamp: int  # ms, or -1 latest, -2 earliest, -3 max timestamp, -4 earliest local, -5 latest tiered, -6 pending upload
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ListOffsets:
    isolation: int
    partitions: tuple[ListOffsetsPartition, ...]
    replica_id: int = -1


@dataclass(frozen=True, slots=True)
class ListedOffset:
    error: int
    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ListOffsetsReply:
    partitions: tuple[ListedOffset, ...]


@dataclass(frozen=True, slots=True)
class DeleteRecordsPartition:
    topic_id: bytes
    partition: int
    offset: int  # the log is to start there, or later; -1: at the high watermark


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    timeout_ms: int
    partitions: tuple[DeleteRecordsPartition, ...]


@dataclass(frozen=True, slots=True)
class DeletedRecords:
    """The outcome for one partition. `error` 0: the log starts at `low_watermark`, also after a crash. 7 REQUEST_TIMED_OUT: it
    will, once the disk has answered."""

    error: int
    low_watermark: int = -1


@dataclass(frozen=True, slots=True)
class DeleteRecordsReply:
    partitions: tuple[DeletedRecords, ...]  # in the order of the request


@dataclass(frozen=True, slots=True)
class EpochPartition:
    topic_id: bytes
    partition: int
    leader_epoch: int  # the epoch whose end is wanted
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class EndOfEpoch:
    """The request OffsetForLeaderEpoch (KIP-101, KIP-320), which leaders answer."""

    partitions: tuple[EpochPartition, ...]


@dataclass(frozen=True, slots=True)
class EpochEnd:
    error: int
    leader_epoch: int = -1  # the largest known epoch up to the one in the request; -1: none
    end_offset: int = -1


@dataclass(frozen=True, slots=True)
class EndOfEpochReply:
    partitions: tuple[EpochEnd, ...]  # in the order of the request


@dataclass(frozen=True, slots=True)
class DescribeProducers:
    """The request DescribeProducers (KIP-664), which leaders answer."""

    partitions: tuple[tuple[bytes, int], ...]  # (topic id, partition)


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    producer_id: int
    epoch: int
    last_sequence: int  # -1: none is known
    last_timestamp: int
    coordinator_epoch: int  # of its last marker; -1: none
    transaction_start: int  # the first offset of its open transaction; -1: none


@dataclass(frozen=True, slots=True)
class PartitionProducers:
    error: int
    producers: tuple[ActiveProducer, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeProducersReply:
    partitions: tuple[PartitionProducers, ...]  # in the order of the request


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The controller's question for log ends, before an election of last resort or an unclean one. Any node with a replica
    answers, once its image has reached the leader epochs that the controller has seen: from then on it takes no record in an
    earlier epoch."""

    partitions: tuple[tuple[bytes, int], ...]
    leader_epochs: tuple[int, ...] = ()  # in the order of the partitions


@dataclass(frozen=True, slots=True)
class LogEnd:
    error: int  # 0, 3 not hosted (yet), 56 offline, 75 the node's image is older
    latest_epoch: int = -1  # of the last batch, or of the latest election that the log knows
    end_offset: int = -1
    durable_offset: int = -1


@dataclass(frozen=True, slots=True)
class LogEndsReply:
    partitions: tuple[LogEnd, ...]  # in the order of the request


@dataclass(frozen=True, slots=True)
class DescribeLogDirs:
    """A request for the log directories of one node. `partitions` None: all."""

    partitions: tuple[tuple[bytes, int], ...] | None  # (topic id, partition)


@dataclass(frozen=True, slots=True)
class LogInDir:
    topic: str
    partition: int
    size: int
    lag: int  # behind the high watermark that this node knows; for a future log: behind the end of the log that it is to replace
    is_future: bool = False


@dataclass(frozen=True, slots=True)
class LogDir:
    error: int  # 0, or 56 KAFKA_STORAGE_ERROR for a failed directory: then the other fields are empty
    path: str
    total_bytes: int = -1
    usable_bytes: int = -1
    logs: tuple[LogInDir, ...] = ()


@dataclass(frozen=True, slots=True)
class LogDirsReply:
    directories: tuple[LogDir, ...]


@dataclass(frozen=True, slots=True)
class AlterLogDirs:
    """The directories to which replicas of this node are to move, or in which they are to be created. The last entry for a
    partition counts.

    A topic id of zeros stands for a topic that the caller does not know. Its path is checked all the same.
    """

    partitions: tuple[tuple[str, bytes, int], ...]  # (path of a log directory, topic id, partition)


@dataclass(frozen=True, slots=True)
class AlterLogDirsReply:
    errors: tuple[int, ...]  # in the order of the request; 0: the replica is there, or is moving there
