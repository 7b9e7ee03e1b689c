"""The reasons of gaps, read from raw batches of the log. Pure: bytes in, runs of offsets with their kinds out."""

from collections.abc import Iterator, Sequence

from libs.client.fetch import FetchedBatches
from libs.wire.record_batches.batches import BatchHeader, BatchView, iter_batches
from libs.wire.record_batches.markers import read_marker
from libs.wire.record_batches.records import iter_records
from services.pipeline.audit.findings import Kind

Run = tuple[Kind, int, int]
"""Kind, first and last offset."""
Gap = tuple[int, int]
"""First and last offset."""


def explain(fetched: FetchedBatches, gaps: Sequence[Gap], *, is_compacted: bool) -> tuple[list[Run], int]:
    """The runs that make up the gaps as far as the batches reach, and the offset after the last batch (-1: there is none).

    `gaps` are in the order of offsets, and the Fetch began at or before the first. `is_compacted` is the topic's cleanup policy:
    only then may offsets be absent.
    """
    runs: list[Run] = []
    absent = Kind.COMPACTED if is_compacted else Kind.UNEXPLAINED_GAP
    aborted = {(producer, offset) for producer, offset in fetched.aborted}
    reached = -1
    rest = list(reversed(gaps))
    for batch in iter_batches(fetched.records):
        header = batch.header
        reached = header.last_offset + 1
        is_aborted = _belongs_to(aborted, header)
        if header.is_control:
            _end_transaction(aborted, batch)
        while rest and rest[-1][0] < reached:
            first, last = rest.pop()
            if first < header.base_offset:
                runs.append((absent, first, min(last, header.base_offset - 1)))
                first = header.base_offset
            if first <= last:
                runs.extend(_of_batch(batch, is_aborted, absent, first, min(last, header.last_offset)))
            if last >= reached:
                rest.append((reached, last))
    return runs, reached


def _of_batch(batch: BatchView, is_aborted: bool, absent: Kind, first: int, last: int) -> Iterator[Run]:
    header = batch.header
    if header.is_control:
        yield Kind.CONTROL, first, last
    elif is_aborted:
        yield Kind.ABORTED, first, last
    elif header.record_count > header.last_offset_delta:
        yield Kind.UNREAD, first, last
    else:
        yield from _of_records(batch, absent, first, last)


def _of_records(batch: BatchView, absent: Kind, first: int, last: int) -> Iterator[Run]:
    """Of a batch that has fewer records than offsets."""
    position = first
    for offset in (record.offset for record in iter_records(batch.view)):
        if position <= offset <= last:
            if offset > position:
                yield absent, position, offset - 1
            yield Kind.UNREAD, offset, offset
            position = offset + 1
    if position <= last:
        yield absent, position, last


def _belongs_to(aborted: set[tuple[int, int]], header: BatchHeader) -> bool:
    return header.is_transactional and any(
        producer == header.producer_id and offset <= header.base_offset for producer, offset in aborted
    )


def _end_transaction(aborted: set[tuple[int, int]], batch: BatchView) -> None:
    """An abort marker ends the producer's oldest aborted transaction. As in Kafka's consumer."""
    marker = read_marker(batch.view)
    producer = batch.header.producer_id
    begun = sorted(each for each in aborted if each[0] == producer and each[1] < batch.header.base_offset)
    if begun and marker is not None and marker.aborts:
        aborted.discard(begun[0])
