"""A walk over the batches of a `.log` file that goes on behind damage."""

from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from libs.commitlog.inspection.reading import InspectedFile
from libs.commitlog.segments.index import RELATIVE_OFFSET_MAX
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batch_layout import CRC_START, HEADER_SIZE, Codec
from libs.wire.record_batches.batches import BatchError, BatchHeader
from libs.wire.record_batches.records import iter_records

_BEFORE_ALL = -1 << 63
_SEARCH_CHUNK = 256 * 1024
_MAGIC_AT = 16


class InspectedBatch(NamedTuple):
    position: int
    header: BatchHeader
    content: memoryview
    crc_matches: bool

    @property
    def end(self) -> int:
        return self.position + self.header.size


class Damage(NamedTuple):
    """Bytes that are no whole batch. `end`: the start of the next batch, or the end of the file."""

    position: int
    end: int
    message: str


def walk(file: InspectedFile, base_offset: int, position: int = 0) -> Iterator[InspectedBatch | Damage]:
    """The batches and the damage from `position`, a batch's start, to the end of the file as it was at its opening. Each batch is
    checked by itself.

    A batch that is whole but for its CRC is yielded: its length leads to the next one. Raises OSError.
    """
    while position < file.size:
        raw = file.read(position, HEADER_SIZE)
        message = _why_no_batch(raw, file.size - position, base_offset)
        if message is None:
            header = BatchHeader.at(raw)
            batch = file.read(position, header.size)
            if len(batch) < header.size:
                yield Damage(position, file.size, "the file was cut while it was read")
                return
            intact = crc32c(batch[CRC_START:]) == header.crc
            if intact or _may_begin(file, position + header.size, base_offset):
                yield InspectedBatch(position, header, batch, intact)
                position += header.size
                continue
            message = "the batch does not match its CRC, and none begins where its length ends"
        behind = _next_batch(file, position + 1, base_offset)
        if behind == file.size and _is_zero(file, position):
            message = "zeros to the end of the file"
        yield Damage(position, behind, message)
        position = behind


def _why_no_batch(raw: memoryview, left: int, base_offset: int) -> str | None:
    """The reason why a header is no batch's; None if it could be."""
    if len(raw) < HEADER_SIZE:
        return f"{left} bytes, too few for a batch"
    header = BatchHeader.at(raw)
    if header.magic != 2:
        return f"no batch begins here (its version would be {header.magic})"
    if header.size < HEADER_SIZE:
        return f"a batch cannot have {header.size} bytes"
    if not base_offset <= header.base_offset <= base_offset + RELATIVE_OFFSET_MAX:
        return f"a batch at offset {header.base_offset} cannot be in the segment of {base_offset}"
    if header.last_offset_delta < 0:
        return f"a batch cannot span {header.last_offset_delta + 1} offsets"
    if header.size > left:
        return f"a batch of {header.size} bytes (offsets {header.base_offset} to {header.last_offset}), only {left} are there"
    return None


def _may_begin(file: InspectedFile, position: int, base_offset: int) -> bool:
    """Whether a batch begins there, as far as its header shows, or the file ends."""
    return position == file.size or _why_no_batch(file.read(position, HEADER_SIZE), file.size - position, base_offset) is None


def _next_batch(file: InspectedFile, position: int, base_offset: int) -> int:
    """The position of the next sound batch; the file's end if there is none."""
    while position + HEADER_SIZE <= file.size:
        chunk = bytes(file.read(position, _SEARCH_CHUNK))
        if len(chunk) < HEADER_SIZE:
            break
        at = chunk.find(b"\x02", _MAGIC_AT)
        while at >= 0:
            start = position + at - _MAGIC_AT
            raw = file.read(start, HEADER_SIZE)
            if _why_no_batch(raw, file.size - start, base_offset) is None:
                header = BatchHeader.at(raw)
                if crc32c(file.read(start + CRC_START, header.size - CRC_START)) == header.crc:
                    return start
            at = chunk.find(b"\x02", at + 1)
        position += len(chunk) - _MAGIC_AT
    return file.size


def _is_zero(file: InspectedFile, position: int) -> bool:
    """Whether all bytes to the end of the file are zero."""
    return not any(bytes(file.read(start, _SEARCH_CHUNK)).strip(b"\0") for start in range(position, file.size, _SEARCH_CHUNK))


def why_unsound(header: BatchHeader) -> str | None:
    """The contradictions within a whole header."""
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        return f"{header.record_count} records over {header.last_offset_delta + 1} offsets"
    if header.codec > Codec.ZSTD:
        return f"there is no codec {header.codec}"
    if header.producer_id >= 0 and header.producer_epoch < 0:
        return f"producer {header.producer_id} has epoch {header.producer_epoch}"
    return None


def why_records_unsound(batch: InspectedBatch) -> str | None:
    """The contradictions between the records of a whole batch and its header. Raises BatchError, MESSAGE_TOO_LARGE: it is too
    large to open."""
    header = batch.header
    before, latest, count = header.base_offset - 1, _BEFORE_ALL, 0
    try:
        for record in iter_records(batch.content):
            if not before < record.offset <= header.last_offset:
                return f"record {count} has offset {record.offset}"
            before, latest, count = record.offset, max(latest, record.timestamp), count + 1
    except BatchError as error:
        if error.code == ErrorCode.MESSAGE_TOO_LARGE:
            raise
        return f"its records cannot be read: {error.message}"
    if count and latest != header.max_timestamp:
        return f"its greatest timestamp is {latest}, the header says {header.max_timestamp}"
    return None
