"""Requests to the controller on a client's behalf, within the client's timeout. The client reads its own writes afterwards."""

import dataclasses
from typing import Protocol, TypeVar

from libs.cluster.client_quotas import user_of
from libs.rpc.contracts.controller import MutatingClient
from libs.rpc.messages.errors import RpcError, RpcFailure
from libs.wire.errors import ErrorCode
from services.gateway.exchange.request_context import ControllerUnavailable, GatewayState, RequestContext

TIMEOUT_S_MAX = 300.0
UNTIMED_MS = 30_000
"""The timeout of the controller's answer to requests that have none of their own."""


class HasRevision(Protocol):
    @property
    def revision(self) -> int: ...


R = TypeVar("R", bound=HasRevision)

_CODES = frozenset(int(code) for code in ErrorCode)


def mutating_client(context: RequestContext, *, strict: bool) -> MutatingClient:
    """Whose `controller_mutation_rate` limits a change of topics (KIP-599). `strict`: it is refused what is beyond that."""
    return MutatingClient(user_of(context.principal), context.client_id, strict)


class RequestFailed(Exception):
    """The whole request failed. `error` and `message` go into the answer for each of its items."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class AskedBy(Protocol):
    """A contract that says for whom the gateway asks."""

    @property
    def asked_by(self) -> str: ...


async def ask(
    gateway: GatewayState, context: RequestContext, method: str, body: AskedBy, reply_type: type[R], timeout_ms: int = UNTIMED_MS
) -> R:
    """The controller's reply, once this gateway's image shows its effect. Raises RequestFailed."""
    asked = dataclasses.replace(body, asked_by=context.asker)  # type: ignore[type-var]
    timeout_s = min(max(timeout_ms, 1) / 1000, TIMEOUT_S_MAX)
    try:
        reply = await gateway.controller(method, asked, reply_type, timeout_s=timeout_s)
    except RpcError as error:
        code = ErrorCode(error.code) if error.code in _CODES and error.code != 0 else ErrorCode.UNKNOWN_SERVER_ERROR
        raise RequestFailed(code, error.message) from None
    except (RpcFailure, ControllerUnavailable):
        # The controller may have done it all the same. REQUEST_TIMED_OUT says just that, and clients retry after it.
        message = "No controller has done it in time. It may be done later; if this lasts, the metadata store (etcd) may be away."
        raise RequestFailed(ErrorCode.REQUEST_TIMED_OUT, message) from None
    # An image that is late is no error: the write is done, and the next Metadata may be a moment old, as in Kafka.
    await gateway.wait_for_revision(reply.revision, timeout_s)
    return reply
