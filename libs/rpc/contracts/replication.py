"""The contract by which a follower copies the logs of its leaders: one connection to each leader's node, all partitions together.

A pull names a session. The follower gives the session a new, higher number whenever it cannot be sure what the leader remembers:
after a reconnect, a refusal, or a timeout. The first pull of a session has sequence 0 and names all partitions. Each further one
has the next sequence, and names only the partitions that changed: in position or epoch, or since they are new or dropped. A
partition that is not named stays as it was. One pull of a session is in flight at a time. But a follower may send the next while
one is parked, and the leader then drops the parked one without an answer.

A leader holds back records while they are fewer than `min_bytes` in all. A round, an error and a divergence end that wait.

A reply holds only partitions with news: batches, a high watermark or log start that the session was not sent yet, a divergence,
an error. A leader parks a pull until there is something to send, or `max_wait_ms` is over. After batches, an error or a
divergence the leader sends nothing more of that partition until a pull names it again.

A leader asks its followers whether they still follow it by a *round*, a number that rises. It answers parked pulls at once, with
the round. A follower's next pull names the highest round that it was sent in the session. So the follower sent that pull after
the round had begun.

Errors of a partition: NOT_LEADER_OR_FOLLOWER (6); FENCED_LEADER_EPOCH (74) or UNKNOWN_LEADER_EPOCH (75), another leader epoch;
OFFSET_OUT_OF_RANGE (1), see `log_start_offset` and `log_end_offset` of the answer; KAFKA_STORAGE_ERROR (56), of the leader's
disk; UNKNOWN_TOPIC_ID (100) or UNKNOWN_TOPIC_OR_PARTITION (3). Errors of the whole call: FETCH_SESSION_ID_NOT_FOUND (70) or
INVALID_FETCH_SESSION_EPOCH (71), begin another session; STALE_BROKER_EPOCH (77), the follower's incarnation is not the
registered one; KAFKA_STORAGE_ERROR, the leader had no descriptor for the answer. Its session takes that for sent, so begin
another.
"""

from libs.lean_dataclass import dataclass
from libs.rpc.contracts.storage import FileRange

PULL = "storage.pull"
PROGRESS = "storage.progress"

INLINE_BYTES_MAX = 64 << 20
"""The most bytes for which one pull may ask inline."""


@dataclass(frozen=True, slots=True)
class PulledFrom:
    """The position of a follower in one partition. It is sent again whenever one of these numbers changes."""

    topic_id: bytes
    partition: int
    leader_epoch: int  # the follower's, as its image has it
    fetch_offset: int  # its log end
    durable_offset: int  # all records before it survive a power cut of the follower; at most `fetch_offset`
    # of its last batch, deleted or not; -1: none. By it the leader finds where the logs diverge (KIP-595)
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class Pull:
    node_id: int
    incarnation: int
    session: int
    sequence: int
    max_wait_ms: int
    max_bytes: int
    partition_max_bytes: int
    partitions: tuple[PulledFrom, ...]
    dropped: tuple[tuple[bytes, int], ...] = ()  # (topic id, partition) that the follower no longer pulls from this leader
    inline: bool = True  # False: file ranges, opened with OPEN_FILE (the two nodes share a kernel)
    round: int = 0  # the highest that an answer in this session named; 0: none
    min_bytes: int = 1  # fewer bytes of records wait for more, until `max_wait_ms` is over


@dataclass(frozen=True, slots=True)
class Pulled:
    topic_id: bytes
    partition: int
    error: int
    leader_epoch: int = -1  # the leader's: the follower drops answers of another epoch than its own
    high_watermark: int = -1
    log_start_offset: int = -1
    log_end_offset: int = -1
    ranges: tuple[FileRange, ...] = ()  # empty when inline
    inline_length: int = 0  # this partition's share of the payload, which is in the order of the partitions
    diverging_epoch: int = -1
    diverging_end_offset: int = -1


@dataclass(frozen=True, slots=True)
class PullReply:
    partitions: tuple[Pulled, ...]
    round: int = 0  # the leader's latest


@dataclass(frozen=True, slots=True)
class MadeDurable:
    topic_id: bytes
    partition: int
    leader_epoch: int  # the leader passes over positions of another epoch than its own
    durable_offset: int
    log_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class Progress:
    """The one-way message of a follower after each sync round, and when one of its logs starts later. It uses the connection of
    the pulls, and never waits for the next pull."""

    node_id: int
    incarnation: int
    partitions: tuple[MadeDurable, ...]
