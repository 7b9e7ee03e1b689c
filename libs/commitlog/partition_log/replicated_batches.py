"""Batches that a leader's log holds already: they have offsets and epochs, and are only checked.

A follower stores the bytes that its leader stored, or nothing. No producer's sequence is checked (KAFKA-6003), no timestamp is
set, no limit of the topic applies. The batches must pass the checks of a recovery, and must continue this log.
"""

from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from libs.commitlog.producers.producer_state import ProducerState
from libs.commitlog.segments.index import RELATIVE_OFFSET_MAX
from libs.commitlog.segments.segment_batches import BatchMeta
from libs.wire.record_batches.batch_layout import CONTROL, CRC_START, HEADER, HEADER_SIZE, LENGTH_END, SMALLEST_LENGTH
from libs.wire.record_batches.batches import BatchHeader
from libs.wire.record_batches.markers import read_marker


class NotReplicable(Exception):
    """Batches that do not continue this log. None of them was appended."""


class StartsBefore(NotReplicable):
    """The first batch begins before the log's end. The end must then lie within it (KAFKA-6975)."""

    def __init__(self, base_offset: int, last_offset: int, log_end_offset: int) -> None:
        super().__init__(f"the first batch holds offsets {base_offset} to {last_offset}, the log ends at {log_end_offset}")
        self.base_offset = base_offset
        self.last_offset = last_offset


class FarAhead(NotReplicable):
    """A gap by compaction that is too wide for a segment. The log must first skip it (KAFKA-5413)."""

    def __init__(self, base_offset: int, log_end_offset: int) -> None:
        super().__init__(f"the first batch begins at offset {base_offset}, the log ends at {log_end_offset}")
        self.base_offset = base_offset


class Replicated(NamedTuple):
    """The whole batches at the start of a buffer, in order. `with_producer`: (header, position) of those that have a producer."""

    batches: list[BatchMeta]
    size: int
    with_producer: list[tuple[BatchHeader, int]]


def read_replicated(
    view: memoryview, position: int, log_end_offset: int, epochs: tuple[int, int], *, bytes_max: int, batches_max: int
) -> Replicated:
    """The whole batches from `position` on, up to about `bytes_max` and `batches_max`.

    `epochs`: the epoch of the log's last batch, and the leader's. Each batch's epoch lies between them, and none is lower than
    the one before. A last batch that was cut short is left out. Offsets may leave gaps, but only upwards. Raises NotReplicable,
    StartsBefore, FarAhead.
    """
    latest_epoch, leader_epoch = epochs
    batches: list[BatchMeta] = []
    with_producer: list[tuple[BatchHeader, int]] = []
    unpack, crc_of = HEADER.unpack_from, crc32c
    next_offset, at, end = log_end_offset, position, len(view)
    enough = position + bytes_max
    while at + HEADER_SIZE <= end and at < enough and len(batches) < batches_max:
        fields = unpack(view, at)
        base_offset, length, epoch, magic, crc, _, delta, _, max_timestamp, producer_id, _, _, _ = fields
        stop = at + length + LENGTH_END
        if magic != 2 or length < SMALLEST_LENGTH or delta < 0:
            raise NotReplicable(f"no batch of version 2 stands where offset {next_offset} was expected")
        if stop > end:
            break
        last_offset = base_offset + delta
        if base_offset < next_offset:
            if batches:
                raise NotReplicable(f"offset {base_offset} follows {next_offset - 1}")
            raise StartsBefore(base_offset, last_offset, log_end_offset)
        if last_offset - next_offset > RELATIVE_OFFSET_MAX:
            if batches:
                break
            raise FarAhead(base_offset, log_end_offset)
        if not latest_epoch <= epoch <= leader_epoch:
            raise NotReplicable(f"offset {base_offset} is of epoch {epoch}, after {latest_epoch} and in {leader_epoch}")
        if crc_of(view[at + CRC_START : stop]) != crc:
            raise NotReplicable(f"the batch at offset {base_offset} does not match its CRC")
        batches.append(BatchMeta(base_offset, last_offset, stop - at, max_timestamp, last_offset, epoch))
        if producer_id >= 0:
            with_producer.append((BatchHeader._make(fields), at))
        next_offset, latest_epoch, at = last_offset + 1, epoch, stop
    return Replicated(batches, at - position, with_producer)


def record_producers(producers: ProducerState, view: memoryview, with_producer: Sequence[tuple[BatchHeader, int]]) -> None:
    """Records the producers of replicated batches, as a recovery replays them. A failed write takes them back."""
    for header, at in with_producer:
        if not header.attributes & CONTROL:
            producers.record(header, header.base_offset)
        elif (marker := read_marker(view[at : at + header.size])) is not None:
            producers.record_marker(header, header.base_offset, marker)
