"""Asking the controller on a client's behalf: within the client's patience, and so that it reads its own writes afterwards."""

from typing import Protocol, TypeVar

from libs.rpc.errors import RpcError, RpcFailure
from libs.wire.errors import ErrorCode
from services.gateway.state import ControllerUnavailable, GatewayState

PATIENCE_S_MAX = 300.0


class HasRevision(Protocol):
    @property
    def revision(self) -> int: ...


R = TypeVar("R", bound=HasRevision)

_CODES = frozenset(int(code) for code in ErrorCode)


class NotDone(Exception):
    """The whole request failed; `error` and `message` go into the answer for each of its items."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


async def ask(gateway: GatewayState, method: str, body: object, reply_type: type[R], timeout_ms: int) -> R:
    """The reply, once our own image shows its effect. Raises NotDone."""
    timeout_s = min(max(timeout_ms, 1) / 1000, PATIENCE_S_MAX)
    try:
        reply = await gateway.controller(method, body, reply_type, timeout_s=timeout_s)
    except RpcError as error:
        code = ErrorCode(error.code) if error.code in _CODES and error.code != 0 else ErrorCode.UNKNOWN_SERVER_ERROR
        raise NotDone(code, error.message) from None
    except (RpcFailure, ControllerUnavailable):
        # It may have been done all the same: the one error that says so, and that clients retry.
        words = "No controller has done it in time. It may be done later; if this lasts, the metadata store (etcd) may be away."
        raise NotDone(ErrorCode.REQUEST_TIMED_OUT, words) from None
    # Not waiting long enough is no error: the write is done, and the next Metadata may be a moment behind, as Kafka's may.
    await gateway.wait_for_revision(reply.revision, timeout_s)
    return reply
