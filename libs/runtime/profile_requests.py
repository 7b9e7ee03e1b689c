"""`/debug/profile` of the admin port: what the process spends its CPU time on, as a flame graph or as collapsed stacks."""

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from libs.telemetry.cpu_profile import CpuProfile, Profile
from libs.telemetry.flame_graph import draw
from libs.telemetry.logs import fields

if TYPE_CHECKING:
    from aiohttp import web

log = logging.getLogger("process")

SECONDS: Final = 30
SECONDS_MAX: Final = 60
SVG, COLLAPSED = "svg", "collapsed"
LOOK_S: Final = 1.0
"""How often it is looked for new threads, and whether the client still waits."""


class BadParameters(Exception):
    """A sentence for the client."""


class ProfileParameters(NamedTuple):
    seconds: int = SECONDS
    format: str = SVG


def parameters_of(query: Mapping[str, str]) -> ProfileParameters:
    """Raises BadParameters."""
    if unknown := sorted(set(query) - {"seconds", "format"}):
        raise BadParameters(f"There is no parameter {unknown[0][:64]!r}: seconds and format are.")
    seconds, format_ = query.get("seconds", str(SECONDS)), query.get("format", SVG)
    if not (seconds.isascii() and seconds.isdecimal() and len(seconds) < 4 and 1 <= int(seconds) <= SECONDS_MAX):
        raise BadParameters(f"seconds is {seconds[:64]!r}; expected a whole number from 1 to {SECONDS_MAX}.")
    if format_ not in (SVG, COLLAPSED):
        raise BadParameters(f"format is {format_[:64]!r}; expected {SVG} or {COLLAPSED}.")
    return ProfileParameters(int(seconds), format_)


class ProfileRequests:
    """Takes one profile at a time."""

    def __init__(self) -> None:
        self._running = False

    async def answer(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        try:
            if len(set(request.query)) < len(request.query):
                raise BadParameters("A parameter is given twice.")
            seconds, format_ = parameters_of(request.query)
        except BadParameters as refusal:
            return web.Response(text=f"{refusal}\n", status=400)
        if self._running:
            return web.Response(text="Another profile is being taken; ask again when it is done.\n", status=409)
        log.info("profile begun", extra=fields(seconds=seconds, asked_by=request.remote))
        self._running = True
        try:
            profile = await _take(seconds, request)
        finally:
            self._running = False
        if format_ == COLLAPSED:
            return web.Response(text=await asyncio.to_thread(profile.collapsed))
        svg = await asyncio.to_thread(draw, profile, f"{request.host} {request.path}")
        return web.Response(text=svg, content_type="image/svg+xml")


async def _take(seconds: float, request: "web.Request") -> Profile:
    """It ends early when its client has gone."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + seconds
    profile = CpuProfile()
    profile.start()
    try:
        while (left := ends_at - loop.time()) > 0 and request.transport is not None:
            profile.look_at_threads()
            await asyncio.sleep(min(LOOK_S, left))
    finally:
        profile.stop()
    return profile.result()
