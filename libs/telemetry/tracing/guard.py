"""The guard of all code that makes spans. Requests are answered after it, so its failures must not leave it."""

import contextlib
import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final

from libs.telemetry.log_limit import LogLimit
from libs.telemetry.logs import fields

log = logging.getLogger("process")

FAILURES_LOG_S: Final = 60.0


class TraceGuard(contextlib.ContextDecorator):
    """Work for a trace: an Exception in it costs the trace and never the request. As a decorator, it is for functions that return
    nothing."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._failures = LogLimit(FAILURES_LOG_S)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        if count := self._failures.count(self._now()):
            log.error("spans not made", exc_info=error, extra=fields(count=count))
        return True


GUARDED: Final = TraceGuard(time.monotonic)
"""The one of this process, which logs one failure a minute."""
