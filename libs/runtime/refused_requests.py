"""Requests that the admin port refuses: those with parameters where there are none, and what is no HTTP.

aiohttp answers 400 to what is no HTTP. Anybody may send that, so it costs a line a minute and host.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from libs.runtime.json_answers import json_answer
from libs.telemetry.limited_lines import LimitedLines

if TYPE_CHECKING:
    from aiohttp import web

log = logging.getLogger("process")

LINES_S: Final = 60.0
HOSTS_MAX: Final = 100
SHOWN_MAX: Final = 64

Answer = Callable[["web.Request"], Awaitable["web.Response"]]


def without_parameters(answer: Answer) -> Answer:
    """A page that has no parameters, and says so to whoever gives one."""

    async def answer_or_refuse(request: "web.Request") -> "web.Response":
        if not request.query:
            return await answer(request)
        given = next(iter(request.query))
        return json_answer({"error": f"there is no parameter {given[:SHOWN_MAX]!r}: this page has no parameters"}, 400)

    return answer_or_refuse


class ServerLog(logging.LoggerAdapter[logging.Logger]):
    """The logger that aiohttp's server is given. Faults of clients become one line each, without a traceback."""

    def __init__(self) -> None:
        """Call it on the event loop."""
        super().__init__(logging.getLogger("aiohttp.server"), {})
        self._lines = LimitedLines(log, LINES_S, asyncio.get_running_loop(), keys_max=HOSTS_MAX)

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        from aiohttp.http_exceptions import HttpProcessingError
        from aiohttp.web import RequestPayloadError

        error = kwargs.get("exc_info")
        if isinstance(error, HttpProcessingError | RequestPayloadError):
            host = str(args[0]) if args else "unknown"  # what aiohttp writes names the client alone, or nothing
            reason = error.message if isinstance(error, HttpProcessingError) else str(error)
            self._lines.write(host, logging.WARNING, "admin port refuses what is no HTTP", host=host, reason=reason)
        else:
            super().log(level, msg, *args, **kwargs)
