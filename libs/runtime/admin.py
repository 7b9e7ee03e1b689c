"""The admin port that every service has: /healthz (alive), /readyz (serving), /health (the cluster's, JSON), /metrics
(Prometheus), /debug (an index), /debug/NAME (JSON), and, where a service offers it, /debug/NAME/THING (JSON, also where it says
why the thing cannot be shown). Who asks for HTML, as browsers do, gets a page of those views that have one. /debug/profile is a
profile (`profile_requests.py`), and /debug/log-levels has levels, which can be changed (`log_level_requests.py`). A storage node
also has /readyz/in-sync: serving, and all of its replicas are in sync."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple

from libs.cluster.health import Health, Verdict
from libs.runtime.admin_access import UNAUTHORIZED, AdminAccess, is_loopback
from libs.runtime.json_answers import json_answer, json_text
from libs.runtime.log_level_requests import change_level, show_levels
from libs.runtime.profile_requests import ProfileRequests
from libs.runtime.refused_requests import ServerLog, without_parameters
from libs.telemetry.exposition import format_for
from libs.telemetry.logs import fields
from libs.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from aiohttp import web

log = logging.getLogger("process")


class NotShown(NamedTuple):
    """Instead of a thing that was looked up: why, as what json can write."""

    status: int
    """Of HTTP: 404 it is not there, 421 another process has it, if anybody does, 503 ask again."""
    body: Mapping[str, object]


class WithPage(NamedTuple):
    """A view with a page of its own, for those who ask for HTML. A thread writes it, so nothing of it changes any more."""

    value: object
    """What json can write."""
    page: Callable[[], str]


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
        access: AdminAccess | None = None,
    ) -> None:
        self._access = access or AdminAccess((host,))
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

        app = web.Application(middlewares=[self._guard()])
        app.add_routes([web.get("/readyz/in-sync", self._readyz_in_sync)] if self._in_sync is not None else [])
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/health", self._cluster_health),
                web.get("/metrics", self._render_metrics),
                web.get("/debug", without_parameters(self._debug_index)),
                web.get("/debug/", without_parameters(self._debug_index)),
                web.get("/debug/profile", ProfileRequests().answer),
                web.get("/debug/log-levels", without_parameters(show_levels)),
                web.put("/debug/log-levels", change_level),
                web.delete("/debug/log-levels", change_level),
                web.get("/debug/{name}", without_parameters(self._debug_one)),
                web.get("/debug/{name}/{thing:.*}", without_parameters(self._debug_lookup)),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0, logger=ServerLog())
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, reuse_address=True)
        await site.start()
        addresses: list[Any] = self._runner.addresses
        self._port = addresses[0][1]
        self._metrics.interruptions.start()
        log.info("admin port open", extra=fields(host=self._host, port=self._port))
        if not (is_loopback(self._host) or self._access.needs_token):
            log.warning("admin port open to others without a token", extra=fields(host=self._host, port=self._port))

    async def close(self) -> None:
        self._metrics.interruptions.stop()
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    def _guard(self) -> Any:
        from aiohttp import web

        @web.middleware
        async def guarded(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            headers = request.headers
            refusal = self._access.refusal(request.path, headers.get("Host", ""), headers.get("Authorization", ""))
            if refusal is None:
                return await handler(request)
            answer = json_answer({"error": refusal.reason}, refusal.status)
            if refusal.status == UNAUTHORIZED:
                answer.headers["WWW-Authenticate"] = "Bearer"
            return answer

        return guarded

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
        return json_answer(health.as_json(), 200 if health.verdict is Verdict.HEALTHY else 503)

    async def _render_metrics(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        form = format_for(request.headers.get("Accept", ""))
        return web.Response(body=await self._metrics.render_in_slices(form), headers={"Content-Type": form.value})

    async def _debug_index(self, request: "web.Request") -> "web.Response":
        views = [f"/debug/{name}" for name in (*self._debug, "log-levels", "profile")]
        return json_answer(sorted(views + [f"/debug/{name}/NAME" for name in self._lookups]))

    async def _debug_one(self, request: "web.Request") -> "web.Response":
        view = self._debug.get(request.match_info["name"])
        if view is None:
            return json_answer({"error": "there is no such view", "views": sorted(self._debug)}, status=404)
        seen = view()
        return await _shown(request, await seen if isawaitable(seen) else seen)

    async def _debug_lookup(self, request: "web.Request") -> "web.Response":
        name = request.match_info["name"]
        lookup = self._lookups.get(name)
        if lookup is None:
            offered = sorted(self._lookups)
            return json_answer({"error": f"single {name} cannot be looked up here", "can_be_looked_up": offered}, status=404)
        return await _shown(request, await lookup(request.match_info["thing"]))


def _text(text: str, status: int = 200) -> "web.Response":
    from aiohttp import web

    return web.Response(text=text, status=status)


async def _shown(request: "web.Request", seen: object) -> "web.Response":
    from aiohttp import web

    if isinstance(seen, NotShown):
        return json_answer(seen.body, seen.status)
    if not isinstance(seen, WithPage):
        return json_answer(seen)
    if "text/html" not in request.headers.get("Accept", ""):
        return web.Response(text=await asyncio.to_thread(json_text, seen.value), content_type="application/json")
    policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    return web.Response(text=await asyncio.to_thread(seen.page), content_type="text/html", charset="utf-8", headers=policy)
