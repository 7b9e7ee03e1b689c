"""What a storage node answers. Callers: gateways (later followers, coordinators). Offsets are absolute, sizes are bytes.

Batches and records travel in the payload, never in the body. Partitions are named by topic id, so that a deleted and
re-created topic can never receive the old one's requests.
"""

from dataclasses import dataclass

APPEND = "storage.append"
FETCH = "storage.fetch"
LIST_OFFSETS = "storage.list_offsets"
DELETE_RECORDS = "storage.delete_records"
OPEN_FILE = "storage.open_file"
END_OF_EPOCH = "storage.end_of_epoch"
LOG_ENDS = "storage.log_ends"
DESCRIBE_LOG_DIRS = "storage.describe_log_dirs"
ALTER_LOG_DIRS = "storage.alter_log_dirs"


@dataclass(frozen=True, slots=True)
class AppendPartition:
    topic_id: bytes  # 16
    partition: int
    leader_epoch: int  # as the caller's image has it
    length: int  # this partition's share of the payload, which holds the batches in the order of `partitions`
    # Of an internal topic, whose one writer is its owner (contracts/ownership.py). Without a batch the answer tells only
    # whether the claim still stands. Errors: 16 a newer owner; 1, 6, 74 claim again.
    owner_epoch: int = -1
    claim: int = -1
    expected_offset: int = -1  # where the log must end


@dataclass(frozen=True, slots=True)
class Append:
    acks: int  # 0, 1, -1
    timeout_ms: int
    partitions: tuple[AppendPartition, ...]
    transactional_id: str | None = None
    revision: int = -1  # of the image that the caller acts on: a node that is behind it waits for its own before it refuses


@dataclass(frozen=True, slots=True)
class Appended:
    """`error` 0: stored as `acks` asks. `leader`/`leader_epoch` are hints with error 6 (-1: unknown).

    `in_log`, with an error: it stands in the log of a leader that leads no longer, and the next one may have it or not.
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
    as_follower: bool = False  # answer also for partitions that are only followed, up to what is known to be committed


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes [position, position + length) of a file that this incarnation of the node calls `file_id`. Never rewritten."""

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
    readable_to: int = -1  # the last range's file has committed batches up to this position, for whoever reads on
    preferred_read_replica: int = -1  # read there instead


@dataclass(frozen=True, slots=True)
class FetchReply:
    partitions: tuple[Fetched, ...]


@dataclass(frozen=True, slots=True)
class OpenFile:
    """Asks for a read-only descriptor, passed by SCM_RIGHTS with the reply. Unix sockets only."""

    file_id: int


@dataclass(frozen=True, slots=True)
class OpenFileReply:
    found: bool  # False: the file was deleted meanwhile; fetch again


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
    """`error` 0: the log starts at `low_watermark`, and will after a crash. 7: it will once the disk has answered."""

    error: int
    low_watermark: int = -1


@dataclass(frozen=True, slots=True)
class DeleteRecordsReply:
    partitions: tuple[DeletedRecords, ...]  # in the order of the request


@dataclass(frozen=True, slots=True)
class EpochPartition:
    topic_id: bytes
    partition: int
    leader_epoch: int  # the epoch that is asked about
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class EndOfEpoch:
    """OffsetForLeaderEpoch (KIP-101, KIP-320), answered by leaders."""

    partitions: tuple[EpochPartition, ...]


@dataclass(frozen=True, slots=True)
class EpochEnd:
    error: int
    leader_epoch: int = -1  # the largest that is not above the one asked about; -1: none
    end_offset: int = -1


@dataclass(frozen=True, slots=True)
class EndOfEpochReply:
    partitions: tuple[EpochEnd, ...]  # in the order of the request


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The controller asks what replicas hold before a last-resort or unclean election. Answered by anyone who hosts them."""

    partitions: tuple[tuple[bytes, int], ...]


@dataclass(frozen=True, slots=True)
class LogEnd:
    error: int  # 0, 3 not hosted (yet), 56 offline
    latest_epoch: int = -1  # of the last batch or of the latest election that the log knows
    end_offset: int = -1
    durable_offset: int = -1


@dataclass(frozen=True, slots=True)
class LogEndsReply:
    partitions: tuple[LogEnd, ...]  # in the order of the request


@dataclass(frozen=True, slots=True)
class DescribeLogDirs:
    """Answered by each node for its own directories. `partitions` None: all."""

    partitions: tuple[tuple[bytes, int], ...] | None  # (topic id, partition)


@dataclass(frozen=True, slots=True)
class LogInDir:
    topic: str
    partition: int
    size: int
    lag: int  # to what this node knows to be committed; of a future one: to the end of the log that it is to replace
    is_future: bool = False


@dataclass(frozen=True, slots=True)
class LogDir:
    error: int  # 0, 56 failed: then nothing else is told
    path: str
    total_bytes: int = -1
    usable_bytes: int = -1
    logs: tuple[LogInDir, ...] = ()


@dataclass(frozen=True, slots=True)
class LogDirsReply:
    directories: tuple[LogDir, ...]


@dataclass(frozen=True, slots=True)
class AlterLogDirs:
    """To where this node's replicas are to move, or be made when they come. Order matters: the last word on a partition counts.

    A topic id of zeros is a topic that the caller does not know: the path is judged all the same.
    """

    partitions: tuple[tuple[str, bytes, int], ...]  # (path of a log directory, topic id, partition)


@dataclass(frozen=True, slots=True)
class AlterLogDirsReply:
    errors: tuple[int, ...]  # in the order of the request; 0: it is there, or on its way
