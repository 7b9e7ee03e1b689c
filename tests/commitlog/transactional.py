"""Transactions in a log, written as a leader would write them, and read as Kafka's clients read committed records."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from libs.commitlog.partition_log.log import Log
from libs.commitlog.producers.producer_state import NO_OFFSET
from libs.wire.record_batches.batches import BatchHeader, BatchView, iter_batches
from libs.wire.record_batches.markers import Marker, build_marker, read_marker
from libs.wire.record_batches.records import iter_records
from tests.commitlog.harness import append, batch_at, content, meta


def produce(log: Log, producer_id: int, *, count: int = 1, transactional: bool = True, size: int = 20) -> int:
    """Returns the batch's first offset."""
    offset = log.log_end_offset
    entry = log.producers.entries.get(producer_id)
    sequence = entry.batches[-1].last_sequence + 1 if entry is not None and entry.batches else 0
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence, "transactional": transactional}
    append(log, batch_at(offset, count=count, size=size, **fields))
    return offset


def end(log: Log, producer_id: int, *, commit: bool, coordinator_epoch: int = 0) -> int:
    """Returns the marker's offset."""
    offset = log.log_end_offset
    marker = Marker(aborts=not commit, coordinator_epoch=coordinator_epoch)
    batch = build_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=1000, base_offset=offset, leader_epoch=0)
    log.producers.record_marker(BatchHeader.at(batch), offset, marker)
    log.append([batch], [meta(batch)])
    return offset


def is_open(log: Log, producer_id: int) -> bool:
    entry = log.producers.entries.get(producer_id)
    return entry is not None and entry.transaction_first_offset != NO_OFFSET


class CommittedRead(NamedTuple):
    offsets: list[int]
    """The offsets of the records that an application gets."""
    aborted: list[tuple[int, int]]
    """The aborted transactions of all reads, one after the other."""


def read_committed(log: Log, high_watermark: int, offset: int | None = None, max_bytes: int = 1 << 20) -> CommittedRead:
    """Reads from `offset`, or the log's start, to the last stable offset, by reads of at most `max_bytes`."""
    position = log.log_start_offset if offset is None else offset
    start, stable = position, log.last_stable_offset(high_watermark)
    offsets: list[int] = []
    aborted_so_far: list[tuple[int, int]] = []
    while position < stable:
        piece = log.read(position, max_bytes, stable, at_least_one_batch=True)
        if piece is None:
            break
        aborted = [entry[:2] for entry in log.aborted_transactions(piece, position, stable)]
        aborted_so_far += aborted
        batches = list(iter_batches(content(piece)))
        offsets += [at for at in without_aborted(batches, aborted) if at >= start]
        position = batches[-1].header.last_offset + 1
    return CommittedRead(offsets, aborted_so_far)


def without_aborted(batches: Iterable[BatchView], aborted: Iterable[tuple[int, int]]) -> Iterator[int]:
    """The batches without aborted ones, by Kafka's rule for clients: from a listed first offset on, the producer's batches are
    dropped until its abort marker."""
    ahead = sorted(aborted, key=lambda entry: entry[1])
    aborting: set[int] = set()
    for batch in batches:
        header = batch.header
        while ahead and ahead[0][1] <= header.last_offset:
            aborting.add(ahead.pop(0)[0])
        if header.is_control:
            marker = read_marker(batch.view)
            if marker is not None and marker.aborts:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield from [record.offset for record in iter_records(batch.view)]
