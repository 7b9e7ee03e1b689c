"""The request log: at DEBUG a line for each request that is answered, at TRACE another one when it begins.

Lines have sizes and times, and who asked. They never have what a request or an answer says: no keys, values, names of topics or
credentials. Callers ask `LOGGED` first, so a request that nobody logs costs two looks at an attribute.
"""

import logging
from typing import Final

from libs.telemetry.level_switches import TRACE, Switches
from libs.telemetry.logs import fields
from libs.wire.api_keys import ApiKey
from services.gateway.exchange.exchange import Answer, Exchange
from services.gateway.requests.client_quotas import size_of

log = logging.getLogger("requests")

LOGGED: Final = Switches(log)
_NAMES: Final = {int(key): key.name for key in ApiKey}


def log_begun(exchange: Exchange, *, by_shortcut: bool) -> None:
    """The gate has let a request through, or is about to say why not."""
    log.log(TRACE, "request begun", extra=fields(**_request(exchange), shortcut=by_shortcut))


def log_answered(exchange: Exchange, answer: Answer) -> None:
    """An answer leaves. The stages are those of `services/gateway/request_meters.py`, and add up to `in_all_ms`: it waited for
    earlier requests (`queued_ms`), the gateway worked (`local_ms`), other processes did (`remote_ms`), and the answer waited for
    earlier ones (`answer_queued_ms`). `throttled_ms`: how long the client is told to wait after it."""
    began_at, answered_at = exchange.began_at, exchange.answered_at
    sent_at = exchange.sent_at or answered_at
    stages = {
        "in_all_ms": _ms(exchange.left_at - exchange.received_at),
        "queued_ms": _ms(began_at - exchange.received_at),
        "local_ms": _ms(sent_at - began_at),
        "remote_ms": _ms(answered_at - sent_at),
        "answer_queued_ms": _ms(exchange.left_at - answered_at),
        "throttled_ms": _ms(exchange.throttled_s),
    }
    log.debug("request answered", extra=fields(**_request(exchange), answer_bytes=size_of(answer), **stages))


def log_unanswered(exchange: Exchange, reason: str, now: float) -> None:
    """The connection ended first, for a reason of `connection_phase.REASONS`."""
    details = {**_request(exchange), "reason": reason, "in_all_ms": _ms(now - exchange.received_at)}
    log.debug("request not answered", extra=fields(**details))


def _request(exchange: Exchange) -> dict[str, object]:
    connection = exchange.connection
    return {
        "api": _NAMES.get(exchange.api_key, exchange.api_key),
        "version": exchange.api_version,
        "correlation_id": exchange.correlation_id,
        "client_id": exchange.client_id,
        "peer": connection.peer,
        "principal": connection.principal,
        "broker_id": connection.broker_id,
        "bytes": exchange.size,
    }


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)
