"""Reads the partitions of one fetch in order, within its budget. Only looks: parking and answering are the caller's."""

from collections.abc import Callable
from dataclasses import dataclass

from libs.commitlog.errors import LogDamaged, OffsetOutOfRange
from libs.commitlog.reading import Slice
from libs.rpc.contracts.storage import Fetch, FetchPartition
from libs.wire.errors import ErrorCode
from services.storage.core.admission import NO_EPOCH, Refusal, refuse_client_epoch
from services.storage.core.fetch_rules import Divergence, FetchBudget, diverges, refuse_offset
from services.storage.partition_view import PartitionView

READ_COMMITTED = 1
OFFSET_NOT_AVAILABLE = int(ErrorCode.OFFSET_NOT_AVAILABLE)
OFFSET_OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)
STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)

Lookup = Callable[[tuple[bytes, int]], PartitionView | Refusal]
Nearer = Callable[[tuple[bytes, int], str, int], int]
"""(partition, the reader's rack, offset) → the node to read from instead, -1: from this one."""


@dataclass(slots=True)
class PartitionRead:
    """What one partition answers. `slice` is None when there is nothing to read (yet)."""

    error: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    slice: Slice | None = None
    aborted: tuple[tuple[int, int], ...] = ()
    """(producer id, first offset) of transactions whose batches in `slice` a reader of committed records must leave out."""
    divergence: Divergence | None = None
    leader: int = -1
    leader_epoch: int = -1
    preferred_read_replica: int = -1
    final: bool = False
    """Waiting would bring nothing: an error, a divergence, or bytes that end with a file that grows no more."""


@dataclass(slots=True)
class Reading:
    partitions: list[PartitionRead]
    taken: int
    complete: bool
    """Enough bytes, or nothing to wait for."""


def read(request: Fetch, lookup: Lookup, nearer: Nearer | None = None) -> Reading:
    budget = FetchBudget(min_bytes=request.min_bytes, max_bytes=request.max_bytes)
    committed = request.isolation == READ_COMMITTED
    partitions: list[PartitionRead] = []
    final = not request.partitions
    for wanted in request.partitions:
        view = lookup((wanted.topic_id, wanted.partition))
        if isinstance(view, Refusal):
            result = _error(view.error, leader=view.leader, leader_epoch=view.leader_epoch)
        else:
            result = _read_partition(view, wanted, budget, committed=committed, rack=request.rack, nearer=nearer)
        final = final or result.final
        partitions.append(result)
    return Reading(partitions, budget.taken, budget.enough or final)


def _error(error: int, *, leader: int = -1, leader_epoch: int = -1) -> PartitionRead:
    return PartitionRead(error, leader=leader, leader_epoch=leader_epoch, final=True)


def _read_partition(
    view: PartitionView, wanted: FetchPartition, budget: FetchBudget, *, committed: bool, rack: str, nearer: Nearer | None
) -> PartitionRead:
    # Epochs come before offsets: an offset means nothing in an epoch that the client does not know.
    # Any negative one is none, but only here: in a ListOffsets it would be a very old one.
    if error := refuse_client_epoch(max(wanted.current_leader_epoch, NO_EPOCH), view.leader_epoch):
        return _error(error, leader=view.node_id, leader_epoch=view.leader_epoch)
    result = PartitionRead(0, view.high_watermark, view.last_stable_offset, view.log_start_offset)
    offset = wanted.fetch_offset
    if error := refuse_offset(offset, result.log_start_offset, view.log_end_offset):
        return _error(error)
    if wanted.last_fetched_epoch >= 0:
        match diverges(wanted.last_fetched_epoch, offset, *view.end_of_epoch(wanted.last_fetched_epoch)):
            case Divergence() as divergence:
                result.divergence, result.final = divergence, True
                return result
            case int() as unknown:
                return _error(unknown)
    if rack and nearer is not None and view.leading:
        result.preferred_read_replica = nearer((wanted.topic_id, wanted.partition), rack, offset)
        if result.preferred_read_replica >= 0:
            result.final = True
            return result
    end = result.last_stable_offset if committed else result.high_watermark
    limit = budget.limit(wanted.max_bytes)
    if offset >= end and (view.is_behind or (offset > result.high_watermark and not view.leading)):
        return PartitionRead(OFFSET_NOT_AVAILABLE)  # worth waiting for; nothing and an end would say that there is no more
    if offset >= end or (not limit and not budget.owes_a_batch):
        return result
    try:
        found = view.read(offset, limit, end, at_least_one_batch=budget.owes_a_batch)
        if found is not None and committed:
            result.aborted = view.aborted_transactions(found, offset, end)
    except OffsetOutOfRange:
        return _error(OFFSET_OUT_OF_RANGE)
    except (LogDamaged, OSError) as failure:
        view.failed_reads.tell(view, failure, offset=offset)
        return _error(STORAGE_ERROR)
    if found is not None:
        budget.take(found.length)
        result.slice = found
        result.final = found.file is not view.active_file
    return result
