"""The requests between the leaders of partitions and the coordinators of transactions (KIP-890).

A leader asks before it stores the first batch of a transaction: `ADD_PARTITIONS`. The coordinator tells the leaders how a
transaction ended: `WRITE_MARKERS`. Where offsets of groups take part, their coordinators ask and are told, instead of the leaders
of their shards: `WRITE_GROUP_MARKERS`. Topics have names where `__transaction_state` has them.
"""

from dataclasses import field

from libs.lean_dataclass import dataclass

ADD_PARTITIONS = "transactions.add_partitions"
WRITE_MARKERS = "storage.write_markers"
WRITE_GROUP_MARKERS = "groups.write_markers"


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Do these partitions belong to the producer's transaction? Unless `verify_only`, those that do not are added."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    partitions: tuple[tuple[str, int], ...]  # topic name, index
    # Of the producer's last marker there; -1: none is known. An owner of that epoch or a later one answers from memory: had its
    # successor ended the transaction, the last marker would be the successor's.
    coordinator_epoch: int = -1
    # The context of the span that asks, if nobody decided on a trace of it (`rpc_context.py`). Empty: unknown.
    undecided_trace: bytes = field(default=b"", compare=False)


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """The error of each partition, in the order of the request; 0: it belongs to the transaction.

    14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE, 16 NOT_COORDINATOR: ask again, perhaps another owner. 49
    INVALID_PRODUCER_ID_MAPPING: the transactional id has another producer. 51 CONCURRENT_TRANSACTIONS: the markers of the
    transaction before are being written. 90 PRODUCER_FENCED: there is a newer producer. 120 TRANSACTION_ABORTABLE: it does not
    belong to the transaction.
    """

    errors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a producer's transaction in one partition."""

    topic_id: bytes  # 16
    partition: int
    leader_epoch: int  # as the coordinator's image has it; the owner epoch of a shard of `__consumer_offsets`
    producer_id: int
    producer_epoch: int
    commits: bool
    raises_epoch: bool  # the marker's epoch is above that of the transaction's batches (`transaction.version` 2)
    shard: int  # the partition of `__transaction_state`; -1: an operator sends it, and it has no number
    coordinator_epoch: int  # the shard's owner epoch


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """Markers for partitions that one node leads. `number` rises with each request of a coordinator process. A leader refuses a
    marker whose shard's owner has sent it a higher number: it is a late one, whose transaction may have ended since.

    The answer is a `storage.AppendReply`. Error 0: all in-sync replicas have the marker. 47 INVALID_PRODUCER_EPOCH: the partition
    knows a newer producer. 48 INVALID_TXN_STATE: the marker should raise the epoch, and does not. 52
    TRANSACTION_COORDINATOR_FENCED: it knows a newer owner of the shard. Any but 0 and 47: it is open as it was.
    """

    number: int
    timeout_ms: int
    markers: tuple[Marker, ...]
