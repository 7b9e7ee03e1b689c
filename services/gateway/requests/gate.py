"""The gate: the one function that every request of every client passes before it begins, whichever way it begins.

A request that repeats an earlier one begins from its template. Any other is parsed, and begins by its row in
`services/gateway/handlers/__init__.py`.
"""

import asyncio
import logging

from libs.telemetry.logs import fields
from libs.wire.api_keys import ApiKey
from libs.wire.headers import read_request_header
from libs.wire.primitives import ProtocolError, Reader
from libs.wire.response_errors import errors_in
from services.gateway.data_path.data_path import DataPath
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.exchange import Exchange
from services.gateway.exchange.request_context import GatewayState
from services.gateway.groups import relay
from services.gateway.handlers import SERVED, fetch, produce

log = logging.getLogger(__name__)

PRODUCE = int(ApiKey.PRODUCE)
FETCH = int(ApiKey.FETCH)
METADATA = int(ApiKey.METADATA)
LEAVE_GROUP = int(ApiKey.LEAVE_GROUP)


class Gate:
    """The gate of one process."""

    def __init__(self, gateway: GatewayState, data_path: DataPath) -> None:
        self._gateway = gateway
        self._data_path = data_path
        self._loop = asyncio.get_running_loop()

    def begin(self, exchange: Exchange) -> None:
        """Begins a request, once. Its answer may be known before this returns, or long after. Any failure ends its connection.

        Call `data_path.appends.flush` at the end of the turn.
        """
        frame, exchange.frame = exchange.frame, None
        assert frame is not None, "a request begins once"
        try:
            if not self._begin_from_template(exchange, frame):
                self._begin_parsed(exchange, Reader(frame))
        except ProtocolError as error:
            exchange.connection.close("malformed", str(error))
        except Exception:
            log.exception(
                "request failed", extra=fields(api=exchange.api_key, version=exchange.api_version, peer=exchange.connection.peer)
            )
            exchange.connection.close("internal", "unexpected exception")

    def client_gone(self, exchange: Exchange) -> None:
        """Tells of a request that has not begun when its client disconnects. Only a LeaveGroup still begins: it waits behind a
        JoinGroup, and without it the group would wait for this member's session to end."""
        if exchange.api_key == LEAVE_GROUP:
            self.begin(exchange)

    def _begin_from_template(self, exchange: Exchange, frame: memoryview) -> bool:
        """Begins a request that repeats an earlier one, without parsing it. False: it does not, and was not begun."""
        templates = exchange.connection.templates
        if exchange.api_key == PRODUCE and templates.produce is not None:
            if produce.begin_from_template(self._data_path, exchange, templates.produce, frame):
                return True
            templates.misses += 1
        elif exchange.api_key == FETCH and templates.fetch is not None:
            if fetch.begin_from_template(self._data_path, exchange, templates.fetch, frame):
                return True
            templates.misses += 1
        else:
            template = templates.relay.get(exchange.api_key)
            return template is not None and relay.begin_from_template(self._data_path, exchange, template, frame)
        return False

    def _begin_parsed(self, exchange: Exchange, reader: Reader) -> None:
        """Raises ProtocolError."""
        header = read_request_header(reader)
        served = SERVED.get(header.api_key)
        if served is None:
            exchange.close("api", f"{header.api_key.name} is not served")
            return
        exchange.api_version = version = header.api_version
        exchange.correlation_id = header.correlation_id
        exchange.client_id = exchange.connection.client_id = header.client_id
        api = served.api
        if not api.min_version <= version <= api.max_version and header.api_key is not ApiKey.API_VERSIONS:
            exchange.close("version", f"{header.api_key.name} version {version}")
            return
        if served.begin(self._data_path, exchange, reader):
            return
        reader.elements_left = api.elements_max
        request = api.read_request(reader, version)
        reader.expect_end()
        answer = served.at_once(self._data_path, exchange, request)
        if answer is not None:
            exchange.finish(self._written(served, exchange, answer))
            return

        def by_handler() -> None:
            task = self._loop.create_task(self._handle(served, exchange, request))
            exchange.on_hang_up = task.cancel

        if not served.ask_leader(self._data_path, exchange, request, by_handler):
            by_handler()

    def _written(self, served: ServedApi, exchange: Exchange, response: object) -> bytes | bytearray:
        """The frame of a handler's response, whose errors are counted."""
        for error in errors_in(response):
            self._data_path.meters.failed(exchange.api_key, error)
        return served.written(exchange.api_version, exchange.correlation_id, response)

    async def _handle(self, served: ServedApi, exchange: Exchange, request: object) -> None:
        context, connection = exchange.context(), exchange.connection
        try:
            response = await served.handle(self._gateway, context, request)
            connection.software_name, connection.software_version = context.software_name, context.software_version
            written = self._written(served, exchange, response)
            if exchange.api_key == METADATA:
                connection.known_addresses = self._data_path.routes.addresses
        except asyncio.CancelledError:
            raise
        except Exception:
            # Kafka has no error that fits every response. Each client knows how to handle a lost connection.
            log.exception("request failed", extra=fields(api=served.api.name, version=exchange.api_version, peer=connection.peer))
            exchange.close("internal", "unexpected exception")
            return
        exchange.finish(written)
