"""Record batches, version 2: headers without copies, validation without opening records, and patching in place.

The produce path calls `validate_produce` and `patch` once per batch and loops over no record. `libs.wire.record_batches.records`
opens a batch for those who must. Layout: 61 bytes of header, then records, compressed as one blob if a codec is set.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from libs.lean_dataclass import dataclass
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batch_layout import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP_AT,
    SMALLEST_LENGTH,
    TRANSACTIONAL,
    Codec,
)
from libs.wire.record_batches.compression import Buffer

__all__ = [
    "CODEC_MASK",
    "CONTROL",
    "CRC_START",
    "DELETE_HORIZON",
    "HEADER",
    "HEADER_SIZE",
    "LENGTH_END",
    "LOG_APPEND_TIME",
    "MAX_SEQUENCE",
    "NO_TIMESTAMP",
    "TRANSACTIONAL",
    "BatchError",
    "BatchHeader",
    "BatchView",
    "NotABatch",
    "ProduceLimits",
    "iter_batches",
    "patch",
    "set_log_append_time",
    "set_max_timestamp",
    "validate_produce",
]

NO_TIMESTAMP = -1
MAX_SEQUENCE = 0x7FFF_FFFF
_LAST_CODEC = int(Codec.ZSTD)
_SMALLEST_CLAIM = 14  # the shortest batch of any Kafka version; a smaller length field is damage, not another version

_SIZE_AND_MAGIC = struct.Struct(">8xi4xb")
_PLACE = struct.Struct(">qii")
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")
_CRC = struct.Struct(">I")


class BatchError(Exception):
    """A refused batch, with the error of the partition's answer. Nothing of it was written."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class NotABatch(BatchError):
    """Bytes that are not exactly one batch of version 2. They are refused before the log is looked at."""


class BatchHeader(NamedTuple):
    """A batch header, its 61 bytes unpacked at once."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return self.batch_length + LENGTH_END

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequences wrap: after 2147483647 comes 0. A batch without a sequence has -1."""
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE if self.base_sequence >= 0 else self.base_sequence

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @classmethod
    def at(cls, view: Buffer, position: int = 0) -> "BatchHeader":
        """Raises struct.error if the view ends within the header."""
        return cls._make(HEADER.unpack_from(view, position))


@dataclass(frozen=True, slots=True)
class ProduceLimits:
    """What a topic allows in a produced batch. Sizes are bytes, ages are ms."""

    max_message_bytes: int = 1_048_588
    segment_bytes: int = 1 << 30
    log_append_time: bool = False
    before_max_ms: int = 0x7FFF_FFFF_FFFF_FFFF
    after_max_ms: int = 3_600_000


def validate_produce(view: memoryview, limits: ProduceLimits, now_ms: int, *, from_coordinator: bool = False) -> BatchHeader:
    """The header of the only batch in `view`, if it is sound as a client may send it. Raises BatchError, in Kafka's order of
    checks. `from_coordinator`: it may be a marker, and a transactional batch has no sequence.

    Records are not opened (`record.validation=header`): CRC, counts, sequence and the batch's own maxTimestamp are checked.
    """
    size = len(view)
    if size < 17:
        raise NotABatch(ErrorCode.INVALID_RECORD, "a produce request needs exactly one batch per partition, found none")
    if size < HEADER_SIZE:
        _refuse_framing(view)
    header = BatchHeader._make(HEADER.unpack_from(view))
    (
        base_offset,
        batch_length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        _,
        max_timestamp,
        producer_id,
        _,
        base_sequence,
        count,
    ) = header
    if batch_length + LENGTH_END != size or magic != 2:
        _refuse_framing(view)
    if base_offset != 0:
        raise BatchError(ErrorCode.INVALID_RECORD, f"a client's batch starts at offset 0, not {base_offset}")
    if size > limits.max_message_bytes:
        raise BatchError(ErrorCode.MESSAGE_TOO_LARGE, f"the batch has {size} bytes, the topic allows {limits.max_message_bytes}")
    if crc32c(view[CRC_START:]) != crc:
        raise BatchError(ErrorCode.CORRUPT_MESSAGE, "the batch does not match its CRC")
    if count <= 0 or count != last_offset_delta + 1:
        raise BatchError(ErrorCode.INVALID_RECORD, f"{count} records over {last_offset_delta + 1} offsets")
    if attributes & CONTROL and not from_coordinator:
        raise BatchError(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if producer_id >= 0 and base_sequence < 0 and not from_coordinator:
        raise BatchError(ErrorCode.INVALID_RECORD, f"sequence {base_sequence} of producer {producer_id} is negative")
    if attributes & CODEC_MASK > _LAST_CODEC:
        raise BatchError(ErrorCode.INVALID_RECORD, f"unknown compression codec {attributes & CODEC_MASK}")
    if not limits.log_append_time:
        if attributes & LOG_APPEND_TIME:
            raise BatchError(ErrorCode.INVALID_TIMESTAMP, "the batch claims LogAppendTime, the topic keeps CreateTime")
        if max_timestamp != NO_TIMESTAMP and not (-limits.before_max_ms <= max_timestamp - now_ms <= limits.after_max_ms):
            raise BatchError(ErrorCode.INVALID_TIMESTAMP, f"timestamp {max_timestamp} is outside of what the topic allows")
    if size > limits.segment_bytes:
        raise BatchError(ErrorCode.RECORD_LIST_TOO_LARGE, f"the batch has {size} bytes, a segment {limits.segment_bytes}")
    return header


def _refuse_framing(view: memoryview) -> None:
    """Says why bytes that are not exactly one batch of version 2 are refused. Always raises."""
    batch_length, magic = _SIZE_AND_MAGIC.unpack_from(view)
    size = batch_length + LENGTH_END
    if batch_length < _SMALLEST_CLAIM:
        raise NotABatch(ErrorCode.CORRUPT_MESSAGE, f"a batch cannot have {size} bytes")
    if size > len(view):
        raise NotABatch(ErrorCode.INVALID_RECORD, f"a batch of {size} bytes, only {len(view)} were sent")
    if not 0 <= magic <= 2:
        raise NotABatch(ErrorCode.CORRUPT_MESSAGE, f"there is no batch version {magic}")
    if magic != 2:
        raise NotABatch(ErrorCode.INVALID_RECORD, f"batches of version {magic} are not accepted, only 2")
    if size < HEADER_SIZE:
        raise NotABatch(ErrorCode.CORRUPT_MESSAGE, f"a batch cannot have {size} bytes")
    raise NotABatch(ErrorCode.INVALID_RECORD, "a produce request needs exactly one batch per partition, found more")


def patch(view: memoryview, base_offset: int, leader_epoch: int) -> None:
    """Writes base offset and leader epoch into a validated batch. Both lie outside of the CRC. `view` is exactly one batch."""
    _PLACE.pack_into(view, 0, base_offset, len(view) - LENGTH_END, leader_epoch)


def set_log_append_time(view: memoryview, timestamp_ms: int) -> None:
    """Writes the time of its append into a validated batch, and makes the CRC match again. `view` is exactly one batch."""
    (attributes,) = _ATTRIBUTES.unpack_from(view, ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(view, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _TIMESTAMP.pack_into(view, MAX_TIMESTAMP_AT, timestamp_ms)
    _CRC.pack_into(view, CRC_AT, crc32c(view[CRC_START:]))


def set_max_timestamp(view: memoryview, timestamp_ms: int) -> None:
    """Corrects the maxTimestamp of a batch, and makes the CRC match again. `view` is exactly one batch."""
    _TIMESTAMP.pack_into(view, MAX_TIMESTAMP_AT, timestamp_ms)
    _CRC.pack_into(view, CRC_AT, crc32c(view[CRC_START:]))


class BatchView:
    """One batch inside a larger buffer."""

    __slots__ = ("header", "view")

    def __init__(self, view: memoryview) -> None:
        self.header = BatchHeader._make(HEADER.unpack_from(view))
        self.view = view[: self.header.batch_length + LENGTH_END]

    @property
    def crc_matches(self) -> bool:
        return crc32c(self.view[CRC_START:]) == self.header.crc


def iter_batches(view: Buffer) -> Iterator[BatchView]:
    """The whole batches of a buffer, by their headers. A partial one at the end is left out, as in a fetch response."""
    rest = memoryview(view)
    while len(rest) >= HEADER_SIZE:
        batch = BatchView(rest)
        size = batch.header.size
        if batch.header.batch_length < SMALLEST_LENGTH or size > len(rest):
            return
        yield batch
        rest = rest[size:]
