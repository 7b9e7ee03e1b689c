"""What a broker or the network may do to a task."""

from libs.wire.errors import ErrorCode, error_name
from services.pipeline.errors import SinkError

__all__ = ["FENCING", "Fenced", "Refused", "SinkError", "refuse"]


class Fenced(Exception):
    """Another attempt of this task has begun, or the coordinator ended the transaction because it took too long."""


class Refused(Exception):
    """An error code in an answer."""

    def __init__(self, request: str, code: int, message: str | None = None) -> None:
        super().__init__(f"{request} is refused with {error_name(code)}{f': {message}' if message else ''}")
        self.code = code

    @property
    def is_retriable(self) -> bool:
        return self.code in _ALSO_RETRIED or (self.code in _CODES and ErrorCode(self.code).retriable)


_CODES = frozenset(int(code) for code in ErrorCode)
_ALSO_RETRIED = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REPLICA_NOT_AVAILABLE})
FENCING = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Answers to a producer whose transaction is no longer its own."""


def refuse(request: str, code: int, message: str | None = None) -> None:
    """Raises Fenced or Refused unless the code is NONE (0)."""
    if code in FENCING:
        raise Fenced(f"{request} is refused with {error_name(code)}")
    if code != ErrorCode.NONE:
        raise Refused(request, code, message)
