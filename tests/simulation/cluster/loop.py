"""A deterministic event loop on virtual time, and the lives of the processes that share it.

Whatever is ready runs in an order that the seed draws; when nothing is, time jumps to the next timer. Each callback belongs to
the life in whose context it was made (a context variable, which tasks inherit): a dead life's callbacks never run again, those
of a paused one wait. So a crash may come at any await, and nothing is cancelled: a dead process runs no `finally` either.
"""

import asyncio
import contextlib
import gc
import hashlib
import heapq
import logging
import sys
import traceback
import warnings
from array import array
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

STEPS_AT_ONE_INSTANT = 200_000
TRACED_TOGETHER = 4096
COLLECT_EVERY_S = 1.0
"""Garbage is collected at given times: when cycles go decides which receive buffers are free."""


class Life:
    """One run of one process, from its start to its crash or end."""

    __slots__ = ("after_turn", "dead", "held", "name", "paused")

    def __init__(self, name: str) -> None:
        self.name = name
        self.after_turn: Callable[[], None] | None = None
        """Called after each of its callbacks. It only looks, and draws nothing."""
        self.dead = False
        self.paused = False
        self.held: list[asyncio.Handle] = []


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)


class Crash(BaseException):
    """The process dies in the middle of whatever it does."""


class Deadlock(AssertionError):
    """A task waits, and nothing will ever happen."""


class Spinning(AssertionError):
    """Steps without end, and time stands still."""


class _Handle(asyncio.TimerHandle):
    """A callback and the moment from which on it is due. It is made for each step: its fields are set here, without the calls
    and the questions about debugging of the classes that it inherits. What is the same in all of them, the class has."""

    __slots__ = ("life", "number")

    _loop = _repr = _source_traceback = None  # type: ignore[assignment]
    _scheduled = False

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        number: int,
    ) -> None:
        if context is None:
            context = copy_context()
        self._when = when
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False
        self.life = context.get(LIFE)
        self.number = number

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback = self._args = None  # type: ignore[assignment]


class VirtualLoop(asyncio.AbstractEventLoop):
    """`failures` collects what callbacks and tasks of living processes raised and nobody took."""

    def __init__(self, random: Random, *, start: float = 1000.0) -> None:
        self._random = random
        self.now = start
        """What `time` answers, for the simulation itself."""
        self._ready: list[_Handle] = []
        self._heap: list[tuple[float, int, _Handle]] = []
        self._numbers = 0
        self._running = False
        self._closed = False
        self._collected = start
        self._hash = hashlib.sha256()
        self._trace = array("d")
        self._abandoned: list[object] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self.steps = 0
        self.failures: list[str] = []

    # --- what asyncio asks of a loop

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        self._numbers = number = self._numbers + 1
        handle = _Handle(self.now, callback, args, context, number)
        if not self._closed:
            self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._numbers = number = self._numbers + 1
        timer = _Handle(when, callback, args, context, number)
        if not self._closed:
            heapq.heappush(self._heap, (when, number, timer))
        return timer

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[T]":
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        if self._closed:
            coro.close()
        else:
            self._tasks.append(task)
        if len(self._tasks) > 20_000:
            self._tasks = [each for each in self._tasks if not each.done()]
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        life, error = LIFE.get(), context.get("exception")
        if (life is None or not life.dead) and not isinstance(error, Crash):
            task = context.get("future")  # an exception that nobody took is found in whatever life collects garbage
            of = f" of {task.get_coro().__qualname__}" if isinstance(task, asyncio.Task) else ""
            self.failures.append(f"{life.name if life else 'world'}: {context.get('message')}{of}: {error!r}")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def let_go(self) -> None:
        """Runs nothing any more, and keeps nothing of what half-ran. Call it within `discarding`."""
        self._closed = True
        self._ready.clear()
        self._heap.clear()
        self._abandoned.clear()
        self._tasks.clear()

    def close(self, failure: BaseException | None = None) -> None:
        """Lets go of everything and collects it, within `discarding`. `failure`: what ended the run. The variables of its frames
        go too: half-run coroutines that they hold would end after the scope, aloud."""
        self.let_go()
        while failure is not None:
            for frame, _ in traceback.walk_tb(failure.__traceback__):
                with contextlib.suppress(RuntimeError):  # it still runs
                    frame.clear()
                    frame.f_locals.clear()  # pytest's assertions call locals(), which keeps a copy
            failure = failure.__context__
        gc.collect()
        gc.collect()  # of what the first one's `finally` blocks have left

    @contextlib.contextmanager
    def discarding(self) -> Iterator[None]:
        """A scope in which the messages of half-run coroutines at their end are not part of the run."""
        hook, sys.unraisablehook = sys.unraisablehook, lambda _unraisable: None
        disabled = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            gc.enable()
            sys.unraisablehook = hook
            logging.disable(disabled)

    # --- lives

    def end(self, life: Life) -> None:
        """Ends a life. Its objects are kept until the loop closes: collecting them would run their `finally` blocks."""
        life.dead = True
        self._abandoned += life.held
        life.held = []

    def resume(self, life: Life) -> None:
        life.paused = False
        self._ready += life.held  # type: ignore[arg-type]
        life.held = []

    # --- running

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `main` until it is done. Raises its errors, Deadlock, Spinning. Garbage is collected only in `discarding`."""
        gc.disable()
        self._running = True
        asyncio._set_running_loop(self)
        try:
            task = self.create_task(work, name="run", context=Context())
            while not task.done():
                self._steps(task)
            return task.result()
        finally:
            asyncio._set_running_loop(None)
            self._running = False

    def _steps(self, task: "asyncio.Task[Any]") -> None:
        """Runs everything of one instant, then moves on to the next."""
        ready, heap, draw, trace = self._ready, self._heap, self._random.random, self._trace
        steps = 0
        while ready:
            at = int(draw() * len(ready))
            handle = ready[at]
            ready[at] = ready[-1]
            ready.pop()
            life = handle.life
            if life is not None and (life.dead or life.paused):
                (self._abandoned if life.dead else life.held).append(handle)
                continue
            if handle._cancelled:
                continue
            steps += 1
            trace.append(handle.number)
            try:
                handle._context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self._failed(handle, error)
            if life is not None and life.after_turn is not None and not life.dead:
                life.after_turn()
            if task.done():
                break
            if steps > STEPS_AT_ONE_INSTANT:
                raise Spinning(f"at {self.now:.6f}: {handle!r}")
        self.steps += steps
        trace.append(self.now)
        if len(trace) > TRACED_TOGETHER:
            self._hash.update(trace)
            del trace[:]
        if task.done():
            return
        while heap and heap[0][2]._cancelled:
            heapq.heappop(heap)
        if not heap:
            raise Deadlock(f"at {self.now:.6f} nothing is left to do")
        self.now = now = max(self.now, heap[0][0])
        if now > self._collected + COLLECT_EVERY_S:
            self._collected = now
            gc.collect(0)
        while heap and heap[0][0] <= now:
            timer = heapq.heappop(heap)[2]
            if not timer._cancelled:
                ready.append(timer)

    def _failed(self, handle: _Handle, error: BaseException) -> None:
        self.call_exception_handler({"message": f"Exception in callback {handle!r}", "exception": error, "handle": handle})

    def traced(self, data: bytes | bytearray) -> None:
        """A message: its bytes belong to what a replay must repeat."""
        self._hash.update(data)

    def digest(self) -> str:
        self._hash.update(self._trace)
        del self._trace[:]
        return self._hash.hexdigest()
