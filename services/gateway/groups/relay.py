"""The relay of a request about one group or transactional id to its shard's owner, as the client wrote it, and of the answer.

The gateway reads nothing but that key. It decodes a request only where no owner answers, to write a refusal of that API.
"""

import ipaddress
import logging
from functools import lru_cache

from libs.cluster.acls import canonical_host
from libs.telemetry.logs import fields
from libs.wire.api_keys import ApiKey, is_flexible
from libs.wire.apis import APIS, GROUPS_MAX
from libs.wire.errors import ErrorCode
from libs.wire.primitives import ProtocolError, Reader, Writer
from libs.wire.response_errors import errors_in
from services.gateway.authorization.access import EVERYBODY
from services.gateway.data_path.data_path import DataPath
from services.gateway.data_path.served_api import framed
from services.gateway.exchange.exchange import Exchange
from services.gateway.peers.coordinator_request import (
    COORDINATOR_LOAD_IN_PROGRESS,
    UNKNOWN_SERVER_ERROR,
    CoordinatorQuery,
    CoordinatorRequest,
    Payload,
)
from services.gateway.peers.coordinators import PARKED_BYTES_MAX, Coordinators

log = logging.getLogger("groups")

INVALID_REQUEST = int(ErrorCode.INVALID_REQUEST)


def begin_single_group_request(data_path: DataPath, exchange: Exchange, reader: Reader) -> bool:
    """Begins a request whose first field is an array of group ids, or of elements that begin with one.

    False: the array has not exactly one element, and the API's handler must split the request. Raises ProtocolError, also for
    more than GROUPS_MAX groups.
    """
    flexible = is_flexible(ApiKey(exchange.api_key), exchange.api_version)
    ahead = Reader(reader.view, reader.position)
    ahead.elements_left = GROUPS_MAX
    if ahead.array_length(flexible) != 1:
        return False
    group_id = ahead.string(flexible)
    coordinators, body = data_path.coordinators_for(exchange.api_key), bytes(reader.view[reader.position :])
    RelayedRequest(data_path, coordinators, exchange, group_id, body).start()
    return True


@lru_cache(1024)
def java_address(host: str) -> str:
    """A client's host as Kafka's coordinators store it and as DescribeGroups shows it."""
    try:
        address = ipaddress.ip_address(host.removeprefix("tcp:").strip("[]"))
    except ValueError:
        return f"/{host}"
    if isinstance(address, ipaddress.IPv4Address):
        return f"/{address}"
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    return "/" + ":".join([f"{int(part, 16):x}" for part in address.exploded.split(":")])


@lru_cache(1024)
def acl_host(client_host: str) -> str:
    """A client's host as ACLs name it."""
    return canonical_host(java_address(client_host)[1:])


class RelayedRequest:
    """One relayed exchange. Its body is a copy: a request that waits for other members must not hold the receive buffer."""

    __slots__ = ("_asker", "_body", "_coordinators", "_exchange", "_key", "_meters", "_request", "_traces")

    def __init__(self, data_path: DataPath, coordinators: Coordinators, exchange: Exchange, key: str, body: bytes) -> None:
        self._coordinators = coordinators
        self._meters = data_path.meters
        self._traces = data_path.traces
        self._exchange = exchange
        authorization = data_path.authorization
        self._asker = authorization.asker(exchange.connection.principal) if authorization is not None else EVERYBODY
        self._key = key
        self._body = body
        self._request: CoordinatorRequest | None = None

    def start(self) -> None:
        exchange, body = self._exchange, self._body
        host = java_address(exchange.connection.client_host)
        shard = self._coordinators.shards.of(self._key)
        context = self._traces.context_to_send(exchange.trace) if exchange.trace is not None else None
        query = CoordinatorQuery(
            shard,
            APIS[ApiKey(exchange.api_key)],
            exchange.api_version,
            body,
            exchange.client_id,
            host,
            self._key,
            exchange,
            context,
            self._asker,
        )
        exchange.note_asked(self._coordinators.loop.time())
        exchange.on_hang_up = self._hang_up
        self._request = self._coordinators.ask(query, self._on_result)
        if self._request is None:
            # A body beyond the whole budget never fits. Otherwise there is room again soon, so the client may retry.
            self._on_result(UNKNOWN_SERVER_ERROR if query.size > PARKED_BYTES_MAX else COORDINATOR_LOAD_IN_PROGRESS, b"")

    def _hang_up(self) -> None:
        if self._request is not None:
            self._request.cancel()

    def _on_result(self, error: int, payload: Payload) -> None:
        exchange = self._exchange
        try:
            if error == INVALID_REQUEST:
                exchange.close("malformed", f"the {self._coordinators.kind.name} cannot read the request")
                return
            if error:
                api, writer = APIS[ApiKey(exchange.api_key)], Writer()
                refusal = api.refusal(exchange.api_version, self._body, error, self._key)
                for each in errors_in(refusal):
                    exchange.error = each
                    self._meters.failed(exchange.api_key, each)
                api.write_response(writer, refusal, exchange.api_version)
                payload = writer.buffer
            exchange.finish(framed(ApiKey(exchange.api_key), exchange.api_version, exchange.correlation_id, payload))
        except ProtocolError as reason:
            exchange.close("malformed", str(reason))
        except Exception:
            log.exception("request failed", extra=fields(api=exchange.api_key, version=exchange.api_version))
            exchange.close("internal", "unexpected exception")
