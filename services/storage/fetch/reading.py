"""Reads of the partitions of one fetch, in order and within its budget. The caller parks and answers."""

import sys
from collections.abc import Callable, Hashable

from libs.commitlog.files.filesystem import OpenFile
from libs.commitlog.files.page_cache import ColdRead, NonblockingLookup, NotInPageCache
from libs.commitlog.model.errors import LogDamaged, OffsetOutOfRange
from libs.commitlog.segments.reading import Slice
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.storage import Fetch, FetchPartition
from libs.wire.errors import ErrorCode
from services.storage.core.fetch.fetch_rules import Divergence, FetchBudget, diverges, refuse_offset
from services.storage.core.produce.admission import NO_EPOCH, Refusal, refuse_client_epoch
from services.storage.partition.partition_view import AbortedInRead, PartitionView
from services.storage.partition.topic_traffic import TopicTraffic

READ_COMMITTED = 1
ABORTED_MAX = 1000
"""The most aborted transactions that a read names, unless so many were open at its first batch. It takes a millisecond."""
SHORTER = 4
"""The part of a read that is tried next, where it would name too many aborted transactions."""
OFFSET_NOT_AVAILABLE = int(ErrorCode.OFFSET_NOT_AVAILABLE)
OFFSET_OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)
KAFKA_STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)

Lookup = Callable[[tuple[bytes, int]], PartitionView | Refusal]
SelectReplica = Callable[[tuple[bytes, int], str, int], int]
"""(partition, the consumer's rack, offset) → the node to read from instead, -1: from this one."""
Attempt = Callable[[Hashable], NonblockingLookup]
"""The lookup in which a read by this name makes its next attempt."""


@dataclass(slots=True)
class PartitionRead:
    """The result for one partition. `slice` is None when there is nothing to read (yet)."""

    error: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    slice: Slice | None = None
    handle: OpenFile | None = None
    """The file of `slice`, where the fetch is answered with its bytes. It may close once nobody holds it."""
    traffic: TopicTraffic | None = None
    """The counts that take the bytes of `slice` once they are answered."""
    aborted: AbortedInRead | None = None
    """What readers of committed records leave out. None for all others."""
    divergence: Divergence | None = None
    leader: int = -1
    leader_epoch: int = -1
    preferred_read_replica: int = -1
    needed: ColdRead | None = None
    """What the read needs from the disk first. Until then it counts as one without bytes."""
    final: bool = False
    """No reason to wait: an error, a divergence, or bytes at the end of a file that grows no more."""


@dataclass(slots=True)
class Reading:
    partitions: list[PartitionRead]
    taken: int
    complete: bool
    """Enough bytes, or nothing to wait for."""


def read(request: Fetch, lookup: Lookup, attempt: Attempt, select: SelectReplica | None = None) -> Reading:
    """Reads what the page cache tells. Nothing here waits for a disk."""
    budget = FetchBudget(min_bytes=request.min_bytes, max_bytes=request.max_bytes)
    committed = request.isolation == READ_COMMITTED
    partitions: list[PartitionRead] = []
    final = not request.partitions
    for wanted in request.partitions:
        view = lookup((wanted.topic_id, wanted.partition))
        if isinstance(view, Refusal):
            result = _error(view.error, leader=view.leader, leader_epoch=view.leader_epoch)
        else:
            lookup_of = attempt(read_name(wanted, committed=committed))
            result = _read_partition(view, wanted, request, budget, lookup_of, select)
        final = final or result.final
        partitions.append(result)
    return Reading(partitions, budget.taken, budget.enough or final)


def read_name(wanted: FetchPartition, *, committed: bool) -> Hashable:
    """The name of a read. Fetches that want the same wait for one lookup."""
    return wanted.topic_id, wanted.partition, wanted.fetch_offset, committed


def _error(error: int, *, leader: int = -1, leader_epoch: int = -1) -> PartitionRead:
    return PartitionRead(error, leader=leader, leader_epoch=leader_epoch, final=True)


def _read_partition(
    view: PartitionView,
    wanted: FetchPartition,
    request: Fetch,
    budget: FetchBudget,
    attempt: NonblockingLookup,
    select: SelectReplica | None,
) -> PartitionRead:
    # Epochs come before offsets: an offset means nothing in an epoch that the client does not know. Any negative epoch is none,
    # but only here: in a ListOffsets it would be a very old one.
    if error := refuse_client_epoch(max(wanted.current_leader_epoch, NO_EPOCH), view.leader_epoch):
        return _error(error, leader=view.node_id, leader_epoch=view.leader_epoch)
    result = PartitionRead(0, view.high_watermark, view.last_stable_offset, view.log_start_offset)
    offset = wanted.fetch_offset
    if error := refuse_offset(offset, result.log_start_offset, view.log_end_offset):
        return _error(error)
    if wanted.last_fetched_epoch >= 0:
        epoch, end_offset = view.end_of_epoch(wanted.last_fetched_epoch)
        match diverges(wanted.last_fetched_epoch, offset, epoch, end_offset):
            case Divergence() as divergence:
                result.divergence, result.final = divergence, True
                return result
            case int() as error:
                return _error(error)
    if request.rack and select is not None and view.leading:
        result.preferred_read_replica = select((wanted.topic_id, wanted.partition), request.rack, offset)
        if result.preferred_read_replica >= 0:
            result.final = True
            return result
    committed = request.isolation == READ_COMMITTED
    end = result.last_stable_offset if committed else result.high_watermark
    limit = budget.limit(wanted.max_bytes)
    if offset >= end and (view.is_behind or (offset > result.high_watermark and not view.leading)):
        return PartitionRead(OFFSET_NOT_AVAILABLE)  # retriable; an end without records would say that there are no more
    if offset >= end or (not limit and not budget.owes_a_batch):
        return result
    try:
        with attempt:
            whole = piece = view.read(offset, limit, end, at_least_one_batch=budget.owes_a_batch)
            if piece is not None and committed:
                piece, result.aborted = _committed(view, piece, offset, end)
            if piece is not None and request.inline:
                result.handle = _opened(piece)
    except NotInPageCache as miss:
        result.needed = miss.read
        return result
    except OffsetOutOfRange:
        return _error(OFFSET_OUT_OF_RANGE)
    except (LogDamaged, OSError) as failure:
        view.failed_reads.report(view, failure, offset=offset)
        return _error(KAFKA_STORAGE_ERROR)
    if piece is not None and request.inline and result.handle is None:
        return _error(KAFKA_STORAGE_ERROR)
    if piece is not None:
        budget.take(piece.length)
        result.slice = piece
        result.traffic = view.traffic
        result.final = piece.file is not view.active_file or piece is not whole
    return result


def _committed(view: PartitionView, piece: Slice, offset: int, end_offset: int) -> tuple[Slice, AbortedInRead]:
    """A read of committed records, and what its reader leaves out. Clients choose how many transactions they abort, so a read
    that would name many is made shorter, to one batch at least."""
    while (aborted := view.aborted_transactions(piece, offset, end_offset, ABORTED_MAX)) is None:
        shorter = view.read(offset, piece.length // SHORTER, end_offset, at_least_one_batch=True)
        if shorter is None or shorter.length >= piece.length:
            aborted = view.aborted_transactions(piece, offset, end_offset, sys.maxsize)
            assert aborted is not None
            break
        piece = shorter
    return piece, aborted


def _opened(piece: Slice) -> OpenFile | None:
    """The file of a piece. None: it has just left the log, or there is no descriptor. Raises NotInPageCache."""
    try:
        return piece.file.handle
    except OSError:
        return None
