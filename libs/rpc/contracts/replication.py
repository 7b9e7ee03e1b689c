"""How a follower copies what its leaders have: one connection from each follower to each leader node, all partitions together.

A pull names a session, which the follower numbers anew (rising) whenever it cannot be sure what the leader remembers: after a
reconnect, a refusal, or a timeout. The first pull of a session has sequence 0 and names all partitions; each further one has the
next sequence and names only those that changed since: whose position moved, whose epoch changed, which are new, which were
dropped. A partition that is not named stays as it was. One pull of a session is under way at a time; but a follower may send the
next while one is parked, which the leader then lets go of without an answer.

A reply holds only partitions that have something to tell: batches, a high watermark or log start that the session has not heard,
a divergence, an error. A leader parks a pull until there is something, or `max_wait_ms` is over. After batches, an error or a
divergence the leader sends nothing more of that partition until a pull names it again.

Errors of a partition: 6 not the leader, 74 or 75 another leader epoch, 1 out of range (see `log_start_offset` and
`log_end_offset` of the answer), 56 the leader's disk, 100 or 3 unknown. Of the whole call: 70 or 71 the session is not known or
out of step (begin another), 77 the follower's incarnation is not the one that is registered.
"""

from dataclasses import dataclass

from libs.rpc.contracts.storage import FileRange

PULL = "storage.pull"
PROGRESS = "storage.progress"


@dataclass(frozen=True, slots=True)
class PulledFrom:
    """Where a follower stands in one partition. Sent again whenever one of these numbers changes."""

    topic_id: bytes
    partition: int
    leader_epoch: int  # the follower's, as its image has it
    fetch_offset: int  # its log end
    durable_offset: int  # all before it survive a power cut of the follower; at most `fetch_offset`
    last_fetched_epoch: int = -1  # of its last batch, deleted or not; -1: none. The leader tells where the logs part (KIP-595)
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
    inline: bool = True  # False: file ranges, opened with OPEN_FILE (the two share a kernel)


@dataclass(frozen=True, slots=True)
class Pulled:
    topic_id: bytes
    partition: int
    error: int
    leader_epoch: int = -1  # the leader's: the follower acts on nothing of another epoch than its own
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


@dataclass(frozen=True, slots=True)
class MadeDurable:
    topic_id: bytes
    partition: int
    leader_epoch: int  # the leader passes over what is not of its own
    durable_offset: int
    log_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class Progress:
    """One-way, after each sync round of the follower and when a log of it starts later, on the connection that its pulls use. It
    never waits for the next pull."""

    node_id: int
    incarnation: int
    partitions: tuple[MadeDurable, ...]
