"""Start, run until told to stop, drain, exit. The first SIGTERM drains, the second aborts."""

import asyncio
import contextlib
import errno
import logging
import os
import resource
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import NoReturn

from libs.rpc.transport.event_loop import EventLoop
from libs.telemetry.logs import fields

log = logging.getLogger("process")

DRAIN_S = 20.0
ANEW_S = 5.0
"""The longest draining of a process that starts anew: nobody can take anything over from it."""
ABORTED = 70
"""Exit code when draining was cut short: EX_SOFTWARE."""
OF_THE_HOST = frozenset(
    {
        *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO),
        *(errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EADDRINUSE, errno.EADDRNOTAVAIL),
    }
)
"""Errors of a start that are the host's, such as a taken port. Who runs the process can mend them, without a traceback. Once it
runs, they are unexpected."""

Stop = Callable[[], Awaitable[None] | None]


async def end_task(task: "asyncio.Task[None]") -> None:
    """Cancels `task` and waits for its end, whatever that is."""
    task.cancel()
    await asyncio.wait((task,))


class CannotRun(Exception):
    """The process cannot run where it was put. Who runs it can mend that, by `facts`, and has no use for a traceback."""

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.facts = facts


class StartAnew(Exception):
    """The process must forget what it knows, and begin again from its files and the metadata store. It stays the same process to
    the one who supervises it."""


class StopFailed(Exception):
    """Something did not stop cleanly. Its own line in the log says what, and why."""


class Stops:
    """How to stop what was started. Add each stop before its thing can need it; `run` calls them, the last first."""

    def __init__(self) -> None:
        self._stops: list[Stop] = []
        self.failed = False
        """Whether a stop failed, or took too long."""

    def add(self, stop: Stop) -> None:
        self._stops.append(stop)

    async def run(self, timeout_s: float | None = None) -> None:
        """Stops everything. One that fails does not keep the others from it; without time left, each runs to its first wait.

        A run that is cancelled leaves the rest undone.
        """
        deadline = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        while self._stops:
            stop = self._stops.pop()
            try:
                async with asyncio.timeout_at(deadline):
                    if (waiting := stop()) is not None:
                        await waiting
            except TimeoutError:
                self.failed = True
                log.error("draining took too long", extra=fields(step=_name(stop)))
            except Exception:
                self.failed = True
                log.exception("draining failed", extra=fields(step=_name(stop)))


def _name(stop: Stop) -> str:
    return getattr(stop, "__qualname__", repr(stop))


class Lifecycle:
    """The life of a process, as `main` gets it. Register each resource once it is open; they are closed in reverse order."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()
        self._stops = Stops()
        self.failure: BaseException | None = None
        self.starts_anew = False
        """Whether the program is to be executed again at the end."""

    def on_stop(self, close: Stop) -> None:
        self._stops.add(close)

    def stop(self, failure: BaseException | None = None) -> None:
        """From anywhere in the loop. With a failure, the process says so and exits with 1 after draining."""
        if failure is not None and self.failure is None:
            self.failure = failure
            self.starts_anew = isinstance(failure, StartAnew)
        self._stopping.set()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    async def stopped(self) -> None:
        """Waits until the process should stop."""
        await self._stopping.wait()

    async def drain(self, timeout_s: float = DRAIN_S) -> bool:
        """Closes what was registered. Returns whether all of it closed in time, and none failed."""
        await self._stops.run(timeout_s)
        return not self._stops.failed


async def supervise(main: Callable[[Lifecycle], Awaitable[None]], lifecycle: Lifecycle, drain_s: float = DRAIN_S) -> int:
    """Runs `main`, which starts everything and returns, then waits for the end. What `main` raises is a failure of the start."""

    async def run_main() -> None:
        await main(lifecycle)

    running = asyncio.create_task(run_main())
    waiting = asyncio.create_task(lifecycle.stopped())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if running.done() and not running.cancelled() and running.exception() is None:
        await waiting
    waiting.cancel()
    starting_failed = running.done() and not running.cancelled() and running.exception() is not None
    if starting_failed:
        lifecycle.failure = running.exception()
    if not running.done():
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    match lifecycle.failure:
        case CannotRun() as refusal:
            log.error(str(refusal), extra=fields(**refusal.facts))
        case StartAnew() as reason:
            log.error("starting anew", extra=fields(reason=reason))
            drain_s = min(drain_s, ANEW_S)
        case OSError(errno=number) as failure if starting_failed and number in OF_THE_HOST:
            log.error("stopping after a failure", extra=fields(error=f"{type(failure).__name__}: {failure}", at=_place(failure)))
        case BaseException() as failure:
            log.error("stopping after a failure", exc_info=failure)
    clean = await lifecycle.drain(drain_s)
    return 0 if clean and lifecycle.failure is None else 1


def _place(failure: BaseException) -> str:
    """The line of this program that failed: a start does much, and not every such error names a file or a port."""
    frames = traceback.extract_tb(failure.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}site-packages{os.sep}" not in frame.filename] or frames
    return f"{ours[-1].filename}:{ours[-1].lineno}" if ours else ""


def allow_open_files() -> None:
    """As many as the process may have. Shells and systemd start with 1,024 for the sake of select(), which nothing here uses;
    a storage node needs them for the segments that are in use, a gateway one for each connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # "unlimited" is more than some kernels give
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descriptors_max() -> int:
    """How many descriptors this process may have now."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def run(main: Callable[[Lifecycle], Awaitable[None]], *, drain_s: float = DRAIN_S) -> NoReturn:
    """Never returns: exits with 0 after a clean stop, 1 after a failure, 70 when a second signal cut the draining short.

    After StartAnew the program is executed again, with the same arguments and the same process id. Python's descriptors are
    closed by that, and with them locks are released.
    """
    lifecycle = Lifecycle()

    async def body() -> int:
        loop = asyncio.get_running_loop()

        def signalled(name: str) -> None:
            if lifecycle.stopping and not lifecycle.starts_anew:
                log.error("aborting", extra=fields(signal=name))
                sys.stderr.flush()
                os._exit(ABORTED)
            log.info("stopping", extra=fields(signal=name))
            lifecycle.starts_anew = False
            lifecycle.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, signalled, number.name)
        return await supervise(main, lifecycle, drain_s)

    allow_open_files()
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        code = runner.run(body())
    if lifecycle.starts_anew:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    sys.exit(code)
