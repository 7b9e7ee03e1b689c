"""What a client hears when the log did not take what was decided for it (kafka-facts sections 16 and 19)."""

from typing import Final

from libs.wire.errors import ErrorCode

NOT_COORDINATOR: Final = int(ErrorCode.NOT_COORDINATOR)
LOADING: Final = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
UNAVAILABLE: Final = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
UNKNOWN: Final = int(ErrorCode.UNKNOWN_SERVER_ERROR)

_TOLD: Final[dict[int, int]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UNAVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID: UNAVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: UNAVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: UNAVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: UNAVAILABLE,
    ErrorCode.OFFSET_OUT_OF_RANGE: UNAVAILABLE,  # the log is not where this owner left it: it looks again
    ErrorCode.NOT_LEADER_OR_FOLLOWER: NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: UNKNOWN,
    ErrorCode.RECORD_LIST_TOO_LARGE: UNKNOWN,
    ErrorCode.INVALID_FETCH_SIZE: UNKNOWN,
}

HARMLESS: Final[frozenset[int]] = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
    }
)
"""Refusals of this one append: the claim stands, and the next one may be taken."""


def told_to_clients(error: int) -> int:
    return _TOLD.get(error, error)
