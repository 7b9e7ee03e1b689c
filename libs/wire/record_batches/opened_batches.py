"""Produced batches that must be opened: each record is checked as Kafka's leader does, and the batch is rebuilt if it must be.

This is for topics with `record.validation=full`, compacted ones, and those whose `compression.type` is not the producer's. It
loops over records, so it runs on an event loop for small batches only.

The common case makes no object per record: one pass over the bytes says whether everything is correct. Only if it is not, a
second pass finds the error.
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from libs.lean_dataclass import dataclass
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batch_layout import CODEC_MASK, CRC_START, FLAGS_AT, HEADER, HEADER_SIZE, LENGTH_END
from libs.wire.record_batches.batches import NO_TIMESTAMP, BatchError, BatchHeader
from libs.wire.record_batches.compression import (
    DECOMPRESSED_BYTES_MAX,
    Buffer,
    DecompressionFailed,
    DecompressionTooLarge,
    compress,
    decompress,
)
from libs.wire.record_batches.first_record import WantedHeader, wanted_header
from libs.wire.record_batches.record_survey import record_parts, survey
from libs.wire.record_batches.varints import encoded

RECORD_ERRORS_MAX = 1000
"""The most bad records that an answer names: a batch may hold millions."""

_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
_NAMED_IN_MESSAGE = 3

RecordErrors = tuple[tuple[int, str], ...]
"""(index in the batch, what is wrong with it)"""


@dataclass(frozen=True, slots=True)
class OpeningRules:
    """The rules of a topic for records. `codec` -1 keeps the producer's; ages are ms, sizes bytes."""

    every_batch: bool = True
    """Whether every batch is opened. False: only those in another codec than `codec`."""
    compacted: bool = False
    codec: int = -1
    level: int | None = None
    log_append_time: bool = False
    before_max_ms: int = _INT64_MAX
    after_max_ms: int = _INT64_MAX
    max_message_bytes: int = _INT64_MAX
    segment_bytes: int = _INT64_MAX

    def recompresses(self, view: Buffer) -> bool:
        return self.codec >= 0 and view[FLAGS_AT] & CODEC_MASK != self.codec


class RecordsRefused(BatchError):
    """Records that the topic does not accept. One bad record fails its batch."""

    def __init__(self, code: ErrorCode, message: str, record_errors: RecordErrors) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class OpenedBatch(NamedTuple):
    """A batch that was opened. `replacement` None: the batch stays as it came, except for its maxTimestamp, which becomes
    `max_timestamp`."""

    replacement: bytearray | None
    max_timestamp: int
    header: bytes | None = None
    """What `wanted_header` found, where one was wanted."""


class RefusedBatch(NamedTuple):
    """A BatchError as a value, since it comes from another process."""

    code: int
    message: str
    record_errors: RecordErrors = ()


class Produced(NamedTuple):
    """A batch whose header was found sound, with the time of its arrival."""

    data: bytes
    rules: OpeningRules
    now_ms: int
    wanted: WantedHeader | None = None


def open_all(batches: Sequence[Produced], report: object = None) -> list[OpenedBatch | RefusedBatch]:
    """The outcome of each batch, in their order. A job for a child process."""
    return [open_one(batch) for batch in batches]


def open_one(batch: Produced, headers_max: int = sys.maxsize) -> OpenedBatch | RefusedBatch:
    """The outcome of one batch. Raises TooManyHeaders where its records have more than `headers_max` headers."""
    try:
        return open_produced(batch.data, batch.rules, batch.now_ms, headers_max, batch.wanted)
    except RecordsRefused as error:
        return RefusedBatch(int(error.code), error.message, error.record_errors)
    except BatchError as error:
        return RefusedBatch(int(error.code), error.message)


def open_produced(
    view: Buffer, rules: OpeningRules, now_ms: int, headers_max: int = sys.maxsize, wanted: WantedHeader | None = None
) -> OpenedBatch:
    """Checks the records of one batch whose header is sound (`validate_produce`). Raises BatchError, with INVALID_RECORD for
    bytes that are no record."""
    header = BatchHeader.at(memoryview(view))
    body = _decompressed(header.codec, memoryview(view)[HEADER_SIZE:])
    surveyed = survey(body, header.record_count, headers_max)
    found = wanted_header(body, wanted) if wanted is not None else None
    newest = header.max_timestamp
    if not rules.log_append_time:
        newest = header.base_timestamp + surveyed.max_delta
        oldest = header.base_timestamp + surveyed.min_delta
        if (
            oldest <= NO_TIMESTAMP
            or newest > min(_INT64_MAX, now_ms + rules.after_max_ms)
            or oldest < now_ms - rules.before_max_ms
        ):
            newest = max(NO_TIMESTAMP, max([record.timestamp for record in record_parts(body, header)]))
            _refuse_bad(body, header, rules, now_ms)
    if rules.compacted and surveyed.null_keys:
        _refuse_bad(body, header, rules, now_ms)
    codec = rules.codec if rules.codec >= 0 else header.codec
    replacement = None
    if not surveyed.in_order:
        body = _renumbered(body, header)
    if codec != header.codec or not surveyed.in_order:
        replacement = _rebuilt(header, body, codec, rules.level if rules.codec >= 0 else None, newest)
        if len(replacement) > rules.max_message_bytes:
            raise BatchError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"rebuilt, the batch has {len(replacement)} bytes, the topic allows {rules.max_message_bytes}",
            )
    size = len(view) if replacement is None else len(replacement)
    if size > rules.segment_bytes:
        raise BatchError(ErrorCode.RECORD_LIST_TOO_LARGE, f"the batch has {size} bytes, a segment {rules.segment_bytes}")
    return OpenedBatch(replacement, newest, found)


def _decompressed(codec: int, blob: memoryview) -> bytes:
    try:
        return bytes(decompress(codec, blob, DECOMPRESSED_BYTES_MAX))
    except DecompressionTooLarge as error:
        raise BatchError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except DecompressionFailed as error:
        raise BatchError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def _refuse_bad(body: bytes, header: BatchHeader, rules: OpeningRules, now_ms: int) -> None:
    """Raises RecordsRefused if the topic refuses any record; the exception names those records."""
    errors: list[tuple[int, str]] = []
    refused, code = 0, ErrorCode.INVALID_RECORD
    for index, (timestamp, has_key, *_) in enumerate(record_parts(body, header)):
        if rules.compacted and not has_key:
            wrong = "it has no key, and the topic is compacted"
        elif (
            rules.log_append_time or timestamp == NO_TIMESTAMP or -rules.before_max_ms <= timestamp - now_ms <= rules.after_max_ms
        ):
            continue
        else:
            wrong = f"its timestamp {timestamp} is outside of what the topic allows"
            code = ErrorCode.INVALID_TIMESTAMP
        refused += 1
        if len(errors) < RECORD_ERRORS_MAX:
            errors.append((index, wrong))
    if refused:
        some = "; ".join(f"record {index}: {wrong}" for index, wrong in errors[:_NAMED_IN_MESSAGE])
        more = "" if refused <= _NAMED_IN_MESSAGE else f"; and {refused - _NAMED_IN_MESSAGE} more"
        raise RecordsRefused(code, f"the batch is refused for its records: {some}{more}", tuple(errors))


def _renumbered(body: bytes, header: BatchHeader) -> bytes:
    """The records with offset deltas 0, 1, 2 …, whatever they claimed."""
    parts: list[bytes] = []
    for index, record in enumerate(record_parts(body, header)):
        content = body[record.start : record.offset_at] + encoded(index) + body[record.offset_end : record.stop]
        parts += (encoded(len(content)), content)
    return b"".join(parts)


def _rebuilt(header: BatchHeader, body: bytes, codec: int, level: int | None, max_timestamp: int) -> bytearray:
    """A batch with other records. Everything else that the producer wrote stays: id, epoch and sequence, times, transaction."""
    blob = compress(codec, body, level)
    batch = bytearray(HEADER_SIZE)
    batch += blob
    fields = header._replace(
        batch_length=len(batch) - LENGTH_END,
        attributes=header.attributes & ~CODEC_MASK | codec,
        max_timestamp=max_timestamp,
        crc=0,
    )
    HEADER.pack_into(batch, 0, *fields)
    HEADER.pack_into(batch, 0, *fields._replace(crc=crc32c(memoryview(batch)[CRC_START:])))
    return batch
