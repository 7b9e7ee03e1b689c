"""Relays a request about one group to the owner of its shard, as the client wrote it, and the answer back.

Nothing but the group id is looked at. Only where there is no answer is the request decoded, for what its API says then.
"""

import asyncio
import ipaddress
import logging
from functools import lru_cache

from libs.rpc.contracts.groups import GROUPS_MAX
from libs.telemetry.logs import fields
from libs.wire.api import ApiKey, is_flexible
from libs.wire.errors import ErrorCode
from libs.wire.primitives import ProtocolError, Reader, Writer
from services.gateway.api import framed
from services.gateway.asking import LOADING, UNKNOWN, Asking, Payload, Question
from services.gateway.coordinators import PARKED_BYTES_MAX, Coordinators
from services.gateway.core.relay_shape import PREFIX_BYTES_MAX, RelayShape
from services.gateway.data_path import DataPath
from services.gateway.exchange import Exchange
from services.gateway.refusals import refuse

log = logging.getLogger(__name__)

NO_SUCH_REQUEST = int(ErrorCode.INVALID_REQUEST)


def of_group(data_path: DataPath, exchange: Exchange, reader: Reader) -> bool:
    """For APIs whose first field is the group id. Raises ProtocolError."""
    flexible = is_flexible(ApiKey(exchange.api_key), exchange.api_version)
    ahead = Reader(reader.view, reader.position)
    group_id = ahead.string(flexible)
    if ahead.position <= PREFIX_BYTES_MAX:
        places = (reader.position, ahead.position)
        shape = RelayShape(reader.view, *places, exchange.api_version, exchange.client_id, group_id)
        exchange.connection.relayed_like(exchange.api_key, shape)
    _Relay(data_path.coordinators, exchange, group_id, bytes(reader.view[reader.position :])).start()
    return True


def begin_alike(data_path: DataPath, exchange: Exchange, shape: RelayShape, frame: memoryview) -> bool:
    """False: the request differs from those of that shape, and nothing was done."""
    correlation_id = shape.match(frame)
    if correlation_id is None:
        return False
    exchange.api_version, exchange.correlation_id, exchange.client_id = shape.version, correlation_id, shape.client_id
    _Relay(data_path.coordinators, exchange, shape.group_id, bytes(frame[shape.body_at :])).start()
    return True


def of_only_group(data_path: DataPath, exchange: Exchange, reader: Reader) -> bool:
    """For APIs whose first field is an array of group ids, or of what begins with one. False: there is not just one, and the
    request is for its handler to split. Raises ProtocolError, also for more than GROUPS_MAX."""
    flexible = is_flexible(ApiKey(exchange.api_key), exchange.api_version)
    ahead = Reader(reader.view, reader.position)
    ahead.elements_left = GROUPS_MAX
    if ahead.array_length(flexible) != 1:
        return False
    group_id = ahead.string(flexible)
    _Relay(data_path.coordinators, exchange, group_id, bytes(reader.view[reader.position :])).start()
    return True


@lru_cache(1024)
def java_address(host: str) -> str:
    """As Kafka's coordinators are told of a client's host, which is what `describe` shows."""
    try:
        address = ipaddress.ip_address(host.removeprefix("tcp:").strip("[]"))
    except ValueError:
        return f"/{host}"
    if isinstance(address, ipaddress.IPv4Address):
        return f"/{address}"
    if address.ipv4_mapped is not None:
        return f"/{address.ipv4_mapped}"
    return "/" + ":".join([f"{int(part, 16):x}" for part in address.exploded.split(":")])


class _Relay:
    """One exchange, from its first byte at the gateway to its last. The body is a copy: one that waits for others must not hold
    what the connection receives into."""

    __slots__ = ("_asking", "_body", "_coordinators", "_exchange", "_group_id")

    def __init__(self, coordinators: Coordinators, exchange: Exchange, group_id: str, body: bytes) -> None:
        self._coordinators = coordinators
        self._exchange = exchange
        self._group_id = group_id
        self._body = body
        self._asking: Asking | None = None

    def start(self) -> None:
        exchange, body = self._exchange, self._body
        host = java_address(exchange.connection.client_host)
        shard = self._coordinators.shards.of(self._group_id)
        question = Question(shard, exchange.api_key, exchange.api_version, body, exchange.client_id, host)
        exchange.sent_at = asyncio.get_running_loop().time()
        exchange.on_hang_up = self._hang_up
        self._asking = self._coordinators.ask(question, self._told)
        if self._asking is None:
            # Too large for ever, or too much at once, which passes.
            self._told(UNKNOWN if question.size > PARKED_BYTES_MAX else LOADING, b"")

    def _hang_up(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    def _told(self, error: int, payload: Payload) -> None:
        exchange = self._exchange
        try:
            if error == NO_SUCH_REQUEST:
                exchange.close("malformed", "a group coordinator cannot read it")
                return
            if error:
                writer = Writer()
                refuse(writer, ApiKey(exchange.api_key), exchange.api_version, self._body, error, self._group_id)
                payload = writer.buffer
            exchange.finish(framed(ApiKey(exchange.api_key), exchange.api_version, exchange.correlation_id, payload))
        except ProtocolError as reason:
            exchange.close("malformed", str(reason))
        except Exception:
            log.exception("request failed", extra=fields(api=exchange.api_key, version=exchange.api_version))
            exchange.close("internal", "unexpected exception")
