"""The spans of one client request at its gateway, from its stage times."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from libs.lean_dataclass import dataclass
from libs.telemetry.tracing.conventions import (
    API_VERSION,
    CLIENT_ID,
    CONSUMER_GROUP_NAME,
    DESTINATION_NAME,
    DESTINATION_PARTITION_ID,
    DISK_WAIT_S,
    KAFKA,
    MESSAGING_SYSTEM,
    NETWORK_PEER_ADDRESS,
    OPERATION_NAME,
    OPERATION_TYPE,
    PENSTOCK_RPC,
    REASON,
    RECEIVE,
    RPC_METHOD,
    RPC_SYSTEM,
    SEND,
    SERVER_ID,
    SETTLE,
    TRANSACTIONAL_ID,
)
from libs.telemetry.tracing.sampling import Reason
from libs.telemetry.tracing.span import Attributes, Link, SpanContext, SpanKind
from libs.telemetry.tracing.span_tree import ATTRIBUTE_CHARS_MAX, SpanTree
from libs.wire.api_keys import ApiKey

NAMES: Final[Mapping[int, str]] = {key: key.name.title().replace("_", "") for key in ApiKey}
OPERATIONS: Final[Mapping[int, tuple[str, str]]] = {
    ApiKey.PRODUCE: (SEND, SEND),
    ApiKey.FETCH: ("poll", RECEIVE),
    ApiKey.OFFSET_COMMIT: ("commit", SETTLE),
    ApiKey.TXN_OFFSET_COMMIT: ("commit", SETTLE),
}
"""`messaging.operation.name` and `.type` of requests that are operations on messages."""


class Subject(NamedTuple):
    """What a request is about: the first of several."""

    name: str
    attributes: Attributes


def partition_subject(topic: str, partition: int) -> Subject:
    return Subject(topic, {DESTINATION_NAME: topic, DESTINATION_PARTITION_ID: str(partition)})


def group_subject(group: str) -> Subject:
    group = group[:ATTRIBUTE_CHARS_MAX]
    return Subject(group, {CONSUMER_GROUP_NAME: group})


def transaction_subject(transactional_id: str) -> Subject:
    transactional_id = transactional_id[:ATTRIBUTE_CHARS_MAX]
    return Subject(transactional_id, {TRANSACTIONAL_ID: transactional_id})


@dataclass(frozen=True, slots=True)
class AskedProcess:
    """One RPC request to another process. Seconds of the loop."""

    context: SpanContext
    """Of the span that made the request. Another trace id than the request's: nobody decided on a trace, and another request of
    the same client gave the trace its id."""
    method: str
    server: str
    sent_at: float
    answered_at: float
    """0.0: there was no answer, or it was not waited for."""


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """What is known of a request when its answer leaves. Seconds of the loop."""

    api_key: int
    api_version: int
    client_id: str
    peer: str
    reason: Reason
    received_at: float
    began_at: float
    parked_at: float
    """When it first waited for a process that could be asked, or asked one. 0.0: never."""
    answered_at: float
    throttled: bool
    """Whether a quota let it wait before it began."""
    asked: Sequence[AskedProcess]
    subject: Subject | None
    error: str | None
    authorized: tuple[float, float] | None = None
    """From when to when the authorizer decided. None: it was not asked."""


def add_spans(request: AnsweredRequest, sent_at: float, tree: SpanTree, trace_id: int, disk_wait_s: float = 0.0) -> None:
    """Adds the root and its steps. `sent_at`: when the client had the answer. `disk_wait_s`: how much of the time until then the
    connection waited for a disk."""
    links = [Link(asked.context) for asked in request.asked if asked.context.trace_id != trace_id]
    name = NAMES.get(request.api_key, "Unknown")
    if request.subject is not None:
        name = f"{name} {request.subject.name}"
    tree.root(name, request.received_at, sent_at, _attributes(request), error=request.error, links=links)
    if request.began_at > request.received_at:
        tree.child("throttled" if request.throttled else "queued", request.received_at, request.began_at)
    known_until = request.parked_at or request.answered_at
    parsed = tree.child("parse", request.began_at, known_until) if request.asked or request.parked_at else None
    if request.authorized is not None:
        tree.child("authorize", *request.authorized, parent_id=parsed)
    for asked in request.asked:
        if asked.sent_at > known_until:
            tree.child("wait for a leader", known_until, asked.sent_at)
        ended_at = asked.answered_at or request.answered_at
        own_id = asked.context.span_id if asked.context.trace_id == trace_id else None
        tree.child(asked.method, asked.sent_at, ended_at, _call(asked), kind=SpanKind.CLIENT, span_id=own_id)
        known_until = max(known_until, ended_at)
    if request.asked:
        tree.child("answer", known_until, request.answered_at)
    tree.child("send", request.answered_at, sent_at, {DISK_WAIT_S: disk_wait_s} if disk_wait_s > 0 else None)


def _attributes(request: AnsweredRequest) -> Attributes:
    attributes: dict[str, str | int | float | bool] = {
        MESSAGING_SYSTEM: KAFKA,
        API_VERSION: request.api_version,
        CLIENT_ID: request.client_id[:ATTRIBUTE_CHARS_MAX],
        NETWORK_PEER_ADDRESS: request.peer,
        REASON: request.reason.value,
    }
    if (operation := OPERATIONS.get(request.api_key)) is not None:
        attributes[OPERATION_NAME], attributes[OPERATION_TYPE] = operation
    if request.subject is not None:
        attributes |= request.subject.attributes
    return attributes


def _call(asked: AskedProcess) -> Attributes:
    return {RPC_SYSTEM: PENSTOCK_RPC, RPC_METHOD: asked.method, SERVER_ID: asked.server}
