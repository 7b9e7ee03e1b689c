"""`storage.append` as it travels: bare lists, in the field order of `libs/rpc/contracts/storage.py`. A test holds them to the
contract."""

from typing import Any

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import BatchError, NotABatch
from libs.wire.record_batches.opened_batches import RecordsRefused
from services.storage.core.produce.admission import Refusal

Answer = list[object]
"""An `Appended`."""
SAY_NOTHING_OF_THE_LOG = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
INT32_MAX = (1 << 31) - 1


def partitions_of(body: Any, payload_length: int) -> list[Any] | None:
    """The partitions of an `Append` whose every type and bound holds; None when one does not."""
    if len(body) < 3:
        return None
    acks, timeout_ms, parts = body[:3]
    if type(acks) is not int or type(timeout_ms) is not int or type(parts) is not list or not parts:
        return None
    if not 0 <= timeout_ms <= INT32_MAX:
        return None
    total = 0
    for part in parts:
        if type(part) is not list or len(part) < 4:
            return None
        topic_id, index, epoch, length = part[:4]
        if type(topic_id) is not bytes or type(index) is not int or type(epoch) is not int or type(length) is not int:
            return None
        if length < 0:
            return None
        if len(part) > 4 and not all(type(value) is int for value in part[4:7]):  # the three values of an owner
            return None
        total += length
    return parts if total == payload_length else None


def revision_of(body: Any) -> int:
    return body[4] if len(body) > 4 and type(body[4]) is int else -1


def transaction_of(body: Any) -> tuple[str | None, int]:
    """The transactional id, and the version of the client's Produce."""
    transactional_id = body[3] if len(body) > 3 and type(body[3]) is str else None
    return transactional_id, body[5] if len(body) > 5 and type(body[5]) is int else 0


def is_joined(body: Any) -> bool:
    return len(body) > 6 and body[6] is True


def appended(base_offset: int, log_append_time_ms: int, log_start_offset: int) -> Answer:
    return [0, base_offset, log_append_time_ms, log_start_offset, None, (), -1, -1]


def refused(
    error: int,
    message: str | None = None,
    *,
    leader: int = -1,
    leader_epoch: int = -1,
    log_start_offset: int = -1,
    record_errors: tuple[tuple[int, str], ...] = (),
) -> Answer:
    return [error, -1, -1, log_start_offset, message, record_errors, leader, leader_epoch]


def refused_as(refusal: Refusal, *, in_log: bool = False) -> Answer:
    answer = refused(refusal.error, refusal.message, leader=refusal.leader, leader_epoch=refusal.leader_epoch)
    return [*answer, True] if in_log else answer


def refused_batch(error: BatchError, log_start_offset: int) -> Answer:
    # As in Kafka: the producer of a sound batch at the wrong time learns where the log begins.
    known = not isinstance(error, NotABatch) and error.code not in SAY_NOTHING_OF_THE_LOG
    return refused(
        int(error.code),
        error.message,
        log_start_offset=log_start_offset if known else -1,
        record_errors=error.record_errors if isinstance(error, RecordsRefused) else (),
    )
