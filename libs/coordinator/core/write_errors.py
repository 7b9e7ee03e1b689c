"""The error codes that clients get when the log refuses an append."""

from typing import Final

from libs.wire.errors import ErrorCode

NOT_COORDINATOR: Final = int(ErrorCode.NOT_COORDINATOR)
COORDINATOR_LOAD_IN_PROGRESS: Final = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
COORDINATOR_NOT_AVAILABLE: Final = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
UNKNOWN_SERVER_ERROR: Final = int(ErrorCode.UNKNOWN_SERVER_ERROR)

_CLIENT_ERRORS: Final[dict[int, int]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID: COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: COORDINATOR_NOT_AVAILABLE,
    ErrorCode.OFFSET_OUT_OF_RANGE: COORDINATOR_NOT_AVAILABLE,  # the log does not end where this owner left it: it claims again
    ErrorCode.NOT_LEADER_OR_FOLLOWER: NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: UNKNOWN_SERVER_ERROR,
}

OF_ONE_PRODUCER: Final[frozenset[int]] = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)
"""Errors of transactional batches and markers, which the leader refuses by their producer's state."""

TOO_LARGE: Final[frozenset[int]] = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
"""Errors of a batch that the topic does not allow."""

HARMLESS: Final[frozenset[int]] = (
    OF_ONE_PRODUCER
    | TOO_LARGE
    | {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
    }
)
"""Errors that concern one append alone. The claim is still good, and the next append may be stored."""


def client_error(error: int) -> int:
    return _CLIENT_ERRORS.get(error, error)
