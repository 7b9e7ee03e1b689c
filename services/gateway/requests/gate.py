"""The gate: the one function that every request of every client passes before it begins, whichever way it begins.

A request that repeats an earlier one of its connection begins by a shortcut. Any other is parsed, and begins by its row in
`services/gateway/handlers/__init__.py`.

Quotas count each request there (`client_quotas.py`), and a Fetch over its quota goes no further.

With an authorizer, each request is checked by the table in `services/gateway/authorization/table.py` before anything is done for
it. A shortcut is learnt from a request that was allowed, and a change of any ACL makes it void. So a request that begins by a
shortcut costs the comparison of two generations. A request that is denied in part goes to its handler without that part.
"""

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine
from typing import Any

from libs.cluster.client_quotas import UNLIMITED
from libs.telemetry.logs import fields
from libs.wire.api_keys import ApiKey
from libs.wire.apis import GROUP_ELEMENTS_MAX
from libs.wire.headers import read_request_header
from libs.wire.messages.fetch import read_fetch
from libs.wire.messages.produce import read_produce
from libs.wire.primitives import ProtocolError, Reader
from libs.wire.response_errors import errors_in
from services.gateway.appends.batch import Batch
from services.gateway.authorization.access import Denied, Filtered, Refused
from services.gateway.authorization.authorization import Authorization
from services.gateway.core.fetch_plan import NOTHING_DENIED
from services.gateway.data_path.data_path import DataPath
from services.gateway.data_path.served_api import Handle, ServedApi
from services.gateway.exchange.exchange import CheckedRequest, Exchange
from services.gateway.exchange.handler_calls import HandlerCalls
from services.gateway.exchange.quota_use import QuotaUse
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.handlers import SERVED
from services.gateway.requests.client_quotas import ClientQuotas
from services.gateway.requests.handler_steps import in_steps
from services.gateway.requests.request_log import LOGGED, log_begun

log = logging.getLogger("requests")

PRODUCE = int(ApiKey.PRODUCE)
READ_HERE = {PRODUCE: read_produce, int(ApiKey.FETCH): read_fetch}
"""The codecs that are no part of the registry."""
CORRELATION_ID_AT = 4
_CORRELATION_ID = struct.Struct(">i")


class Gate:
    """The gate of one process."""

    def __init__(self, gateway: GatewayState, data_path: DataPath, quotas: ClientQuotas) -> None:
        self._gateway = gateway
        self._authorization = data_path.authorization
        self._quotas = quotas
        self._data_path = data_path
        self._traces = data_path.traces
        self._loop = asyncio.get_running_loop()

    def begin(self, exchange: Exchange) -> None:
        """Begins a request, once. Its answer may be known before this returns, or long after. Any failure ends its connection.

        Call `data_path.appends.flush` at the end of the turn.
        """
        frame, exchange.frame = exchange.frame, None
        assert frame is not None, "a request begins once"
        quotas = self._quotas
        began_at = quotas.busy_now() if quotas.limits_time else 0.0
        try:
            authorization = self._authorization
            if authorization is None:
                shortcut = exchange.connection.shortcuts.by_api.get(exchange.api_key)
            else:
                shortcut = authorization.shortcut_of(exchange)
            match = None
            if shortcut is not None:
                routes = self._data_path.routes
                if shortcut.generation != routes.generation:
                    shortcut.renew(routes)
                match = shortcut.match(frame)
            parsed: tuple[ServedApi, Reader] | None = None
            if shortcut is not None and match is not None:
                exchange.api_version, exchange.client_id = shortcut.version, shortcut.client_id
                exchange.correlation_id = _CORRELATION_ID.unpack_from(frame, CORRELATION_ID_AT)[0]
            elif (parsed := self._read_header(exchange, frame)) is None:
                return
            # The gate: API, version and client are known, and nothing has begun. Refusals stand here.
            if LOGGED.trace:
                log_begun(exchange, by_shortcut=match is not None)
            if self._traces.sampler.draws():
                self._traces.sample(exchange)
            if quotas.configured:
                kept = exchange.connection.kept_limits
                if kept.generation != quotas.generation or kept.client_id != exchange.client_id:
                    kept = quotas.keep_limits(exchange)
                if exchange.api_key == PRODUCE and kept.produce and kept.produce.takes(len(frame), exchange.received_at):
                    exchange.quota_use = kept.paid
                elif kept.limits is not UNLIMITED and not quotas.begin(exchange, kept, frame, began_at):
                    return
            if shortcut is not None:
                if match is not None:
                    if shortcut.begin(exchange, match):
                        return
                    parsed = self._read_header(exchange, frame)
                shortcut.misses += 1
            if parsed is not None:
                served, reader = parsed
                if authorization is not None and not self._is_allowed(authorization, exchange, served, reader):
                    return
                if not served.begin(self._data_path, exchange, reader):
                    self._begin_with_handler(exchange, served, reader)
        except ProtocolError as error:
            exchange.connection.close("malformed", str(error))
        except Exception:
            log.exception(
                "request failed", extra=fields(api=exchange.api_key, version=exchange.api_version, peer=exchange.connection.peer)
            )
            exchange.connection.close("internal", "unexpected exception")
        finally:
            if began_at:
                quotas.rests(exchange)

    def joins(self, batch: Batch, frame: memoryview, now: float) -> bool:
        """Whether a frame of the same read repeats the request of the batch before it, is decided on like it, and has joined it
        (`services/gateway/shortcuts/produce_run.py`). Its quota is paid then. If not, it begins as a request of its own."""
        exchange, quotas = batch.request.exchange, self._quotas
        if exchange.trace is not None or quotas.limits_time or LOGGED.debug or exchange.received_at != now:
            return False
        use, size = exchange.quota_use, len(frame)
        if use is None:
            return batch.joins(frame, self._traces)
        slice_ = use.paid_from
        if use is not exchange.connection.kept_limits.paid or slice_ is None or not slice_.may_take(size, now):
            return False
        if not batch.joins(frame, self._traces):
            return False
        slice_.takes(size, now)
        return True

    def client_gone(self, exchange: Exchange) -> None:
        """Tells of a request that has not begun when its client disconnects, since others went before it."""
        served = SERVED.get(exchange.api_key)
        if served is not None and served.outlives_its_client:
            self.begin(exchange)

    def _read_header(self, exchange: Exchange, frame: memoryview) -> tuple[ServedApi, Reader] | None:
        """The row of the API, and a reader at the body. None: that API or version is not served, and the connection is closed.
        Raises ProtocolError."""
        reader = Reader(frame)
        header = read_request_header(reader)
        served = SERVED.get(header.api_key)
        if served is None:
            exchange.close("api", f"{header.api_key.name} is not served")
            return None
        exchange.api_version = version = header.api_version
        exchange.correlation_id = header.correlation_id
        exchange.client_id = exchange.connection.client_id = header.client_id
        if not served.api.min_version <= version <= served.api.max_version and not served.in_any_version:
            exchange.close("version", f"{header.api_key.name} version {version}")
            return None
        return served, reader

    def _is_allowed(self, authorization: Authorization, exchange: Exchange, served: ServedApi, reader: Reader) -> bool:
        """Whether the request begins as it is. False: it is answered, or begins without what its client may not do. Raises
        ProtocolError."""
        api, version = served.api, exchange.api_version
        ahead = Reader(reader.view, reader.position)
        if api.key in READ_HERE:
            request = READ_HERE[api.key](ahead, version)
        else:
            ahead.elements_left = min(api.elements_max, GROUP_ELEMENTS_MAX) if api.refused is not None else api.elements_max
            request = api.read_request(ahead, version)
        ahead.expect_end()
        decides_at = self._loop.time()
        outcome = authorization.check(exchange, request)
        exchange.authorized = decides_at, self._loop.time()
        if isinstance(outcome, Refused):
            exchange.finish(self._written(served, exchange, outcome.response))
            return False
        if isinstance(outcome, Filtered):
            self._begin_task(exchange, lambda: self._handle_filtered(served, exchange, outcome))
            return False
        if api.key in READ_HERE:
            exchange.checked = CheckedRequest(request, outcome.errors if isinstance(outcome, Denied) else NOTHING_DENIED)
        return True

    async def _handle_filtered(self, served: ServedApi, exchange: Exchange, filtered: Filtered) -> None:
        assert served.handle is not None, "every API whose requests may be denied in part has one"
        handle = served.handle

        async def completed(gateway: GatewayState, context: RequestContext, request: Any) -> Any:
            return await filtered.complete(await handle(gateway, context, request))

        await self._handle(served, exchange, filtered.request, completed)

    def _begin_task(self, exchange: Exchange, handling: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self._loop.create_task(in_steps(handling, exchange, self._quotas))
        exchange.on_hang_up = task.cancel

    def _begin_with_handler(self, exchange: Exchange, served: ServedApi, reader: Reader) -> None:
        """Reads the request and begins a task of its handler, unless a shortcut answers it. Raises ProtocolError."""
        reader.elements_left = served.api.elements_max
        request = served.api.read_request(reader, exchange.api_version)
        reader.expect_end()

        def by_handler() -> None:
            assert served.handle is not None, "`begin` begins every request of an API without a handler"
            handle = served.handle
            self._begin_task(exchange, lambda: self._handle(served, exchange, request, handle))

        shortcut = served.shortcut if self._data_path.config.shortcuts else None
        match = shortcut.match(self._data_path, exchange, request) if shortcut is not None else None
        if shortcut is None or match is None or not shortcut.begin(self._data_path, exchange, match, by_handler):
            by_handler()

    def _written(self, served: ServedApi, exchange: Exchange, response: object) -> bytes | bytearray:
        """The frame of a handler's response, whose errors are counted."""
        for error in errors_in(response):
            exchange.error = error
            self._data_path.meters.failed(exchange.api_key, error)
        return served.written(exchange.api_version, exchange.correlation_id, response)

    async def _handle(self, served: ServedApi, exchange: Exchange, request: object, handle: Handle) -> None:
        context, connection = exchange.context(), exchange.connection
        context.calls = HandlerCalls(exchange, self._traces)
        try:
            response = await handle(self._gateway, context, request)
            connection.software_name, connection.software_version = context.software_name, context.software_version
            if throttle_time_ms := getattr(response, "throttle_time_ms", 0):
                use = exchange.quota_use = exchange.quota_use or QuotaUse(UNLIMITED)
                use.throttle_time_ms = throttle_time_ms
            written = self._written(served, exchange, response)
            if served.tells_addresses:
                connection.known_addresses = self._data_path.routes.addresses
        except asyncio.CancelledError:
            raise
        except Exception:
            # Kafka has no error that fits every response. Each client knows how to handle a lost connection.
            log.exception("request failed", extra=fields(api=served.api.name, version=exchange.api_version, peer=connection.peer))
            exchange.close("internal", "unexpected exception")
            return
        exchange.finish(written)
