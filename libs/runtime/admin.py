"""The admin port that every service has: /healthz (alive), /readyz (serving), /health (the cluster's, JSON), /metrics
(Prometheus), /debug (an index), /debug/NAME (JSON), and, where a service offers it, /debug/NAME/THING (JSON, also where it says
why the thing cannot be shown). A storage node also has /readyz/in-sync: serving, and all of its replicas are in sync."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple

from libs.cluster.health import Health, Verdict
from libs.telemetry.logs import fields
from libs.telemetry.metrics import CONTENT_TYPE, Metrics

if TYPE_CHECKING:
    from aiohttp import web

log = logging.getLogger(__name__)


class NotShown(NamedTuple):
    """Instead of a thing that was looked up: why, as what json can write."""

    status: int
    """Of HTTP: 404 it is not there, 421 another process has it, if anybody does, 503 ask again."""
    body: Mapping[str, object]


Lookup = Callable[[str], Awaitable["object | NotShown"]]


class AdminServer:
    """`ready` and `in_sync` answer (ready, reason). `health` is the cluster's, as this process knows it. `debug` functions return
    what json can write, anything with a `repr`, or an awaitable of these. `lookups` are for one thing of a kind, by its name,
    which may hold anything.

    aiohttp is imported when the server starts: it costs more than the rest of a service together, and nobody waits for it.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        ready: Callable[[], tuple[bool, str]],
        health: Callable[[], Health],
        metrics: Metrics,
        debug: Mapping[str, Callable[[], object]] | None = None,
        lookups: Mapping[str, Lookup] | None = None,
        in_sync: Callable[[], tuple[bool, str]] | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._ready = ready
        self._in_sync = in_sync
        self._health = health
        self._metrics = metrics
        self._debug = dict(debug or {})
        self._lookups = dict(lookups or {})
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """Where it listens really, once started."""
        return self._port

    async def start(self) -> None:
        """Raises OSError when the port is taken."""
        from aiohttp import web

        app = web.Application()
        app.add_routes([web.get("/readyz/in-sync", self._readyz_in_sync)] if self._in_sync is not None else [])
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/health", self._cluster_health),
                web.get("/metrics", self._render_metrics),
                web.get("/debug", self._debug_index),
                web.get("/debug/", self._debug_index),
                web.get("/debug/{name}", self._debug_one),
                web.get("/debug/{name}/{thing:.*}", self._debug_lookup),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, reuse_address=True)
        await site.start()
        addresses: list[Any] = self._runner.addresses
        self._port = addresses[0][1]
        log.info("admin port open", extra=fields(host=self._host, port=self._port))

    async def close(self) -> None:
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def _healthz(self, request: "web.Request") -> "web.Response":
        return _text("ok\n")

    async def _readyz(self, request: "web.Request") -> "web.Response":
        return self._readiness(*self._ready())

    async def _readyz_in_sync(self, request: "web.Request") -> "web.Response":
        assert self._in_sync is not None
        return self._readiness(*self._in_sync())

    def _readiness(self, ready: bool, reason: str) -> "web.Response":
        return _text(f"{reason or 'ready'}\n", status=200 if ready else 503)

    async def _cluster_health(self, request: "web.Request") -> "web.Response":
        health = self._health()
        return _json(health.as_json(), 200 if health.verdict is Verdict.HEALTHY else 503)

    async def _render_metrics(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    async def _debug_index(self, request: "web.Request") -> "web.Response":
        views = [f"/debug/{name}" for name in self._debug]
        return _json(sorted(views + [f"/debug/{name}/NAME" for name in self._lookups]))

    async def _debug_one(self, request: "web.Request") -> "web.Response":
        view = self._debug.get(request.match_info["name"])
        if view is None:
            return _json({"error": "there is no such view", "views": sorted(self._debug)}, status=404)
        seen = view()
        return _json(await seen if isawaitable(seen) else seen)

    async def _debug_lookup(self, request: "web.Request") -> "web.Response":
        name = request.match_info["name"]
        lookup = self._lookups.get(name)
        if lookup is None:
            offered = sorted(self._lookups)
            return _json({"error": f"single {name} cannot be looked up here", "can_be_looked_up": offered}, status=404)
        found = await lookup(request.match_info["thing"])
        return _json(found.body, found.status) if isinstance(found, NotShown) else _json(found)


def _text(text: str, status: int = 200) -> "web.Response":
    from aiohttp import web

    return web.Response(text=text, status=status)


def _json(value: object, status: int = 200) -> "web.Response":
    from aiohttp import web

    text = json.dumps(value, default=_plain, indent=2) + "\n"
    return web.Response(text=text, status=status, content_type="application/json")


def _plain(value: object) -> object:
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return repr(value)
