"""A profile of this process by CPU time: which functions it spends its time in.

The kernel's profiling timer (`setitimer(ITIMER_PROF)`) sends SIGPROF after each `INTERVAL_S` of CPU time that the process has
used. Python runs the handler in the main thread, between two instructions. For each thread the handler adds the CPU time since
the last sample to the stack that the thread is in. So the event loop is seen where it is. A sampling thread would mostly see it
where it gives up the interpreter's lock. A process that sleeps is not woken, and nothing is left behind when the profile ends.
"""

import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType
from typing import Final

from libs.lean_dataclass import dataclass

INTERVAL_S: Final = 0.01
FRAMES_MAX: Final = 128
"""The depth of a stack. Of a deeper one the innermost frames are left out."""
MAIN: Final = "event loop"
"""The name of the main thread, which runs it."""

Stack = tuple[str, ...]
"""Names of functions, the outermost first. The first name is the thread's."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a process did. `seconds`: the wall time of the profile."""

    stacks: Mapping[Stack, int]
    """CPU time by stack, in nanoseconds."""
    samples: int
    seconds: float

    @property
    def cpu_ns(self) -> int:
        return sum(self.stacks.values())

    def collapsed(self) -> str:
        """One line for each stack: `outermost;…;innermost MICROSECONDS`, as flamegraph.pl, speedscope and others read it."""
        return "".join(f"{';'.join(stack)} {round(ns / 1000)}\n" for stack, ns in sorted(self.stacks.items()) if ns >= 500)


class _Thread:
    """A thread that is not the main one, and the CPU time that it had used at the last sample."""

    def __init__(self, name: str, native_id: int) -> None:
        self.name = name
        self._path = f"/proc/self/task/{native_id}/schedstat"
        self._used_ns = self._read()

    def _read(self) -> int | None:
        """Nanoseconds. None: the thread has ended, or no descriptor is free."""
        try:
            with open(self._path, encoding="ascii") as file:
                return int(file.read().split()[0])
        except OSError:
            return None

    def used_since(self) -> int:
        """Nanoseconds since it was last read."""
        used, former = self._read(), self._used_ns
        if used is None:
            return 0
        self._used_ns = used
        return max(0, used - former) if former is not None else 0


class CpuProfile:
    """A profile that is being taken. One at a time, by the main thread: the timer and the signal are the process's."""

    def __init__(self) -> None:
        self._stacks: defaultdict[tuple[str, tuple[CodeType, ...]], int] = defaultdict(int)
        self._threads: dict[int, _Thread] = {}
        self._samples = 0
        self._began_at = time.monotonic()
        self._main_ns = time.thread_time_ns()

    def start(self) -> None:
        """Raises ValueError if another thread than the main one calls."""
        self.look_at_threads()
        signal.signal(signal.SIGPROF, self._sample)
        signal.siginterrupt(signal.SIGPROF, False)  # system calls of C libraries go on
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)

    def stop(self) -> None:
        """Ends it. The signal is ignored from now on: one that is on its way would end the process by default."""
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)

    def look_at_threads(self) -> None:
        """Notes the threads that there are. Call it about once a second. The handler cannot: it may have interrupted the main
        thread while that holds the lock which `threading.enumerate` takes."""
        own = threading.get_ident()
        for thread in threading.enumerate():
            ident, native_id = thread.ident, thread.native_id
            if ident is not None and native_id is not None and ident not in self._threads and ident != own:
                self._threads[ident] = _Thread(thread.name, native_id)

    def _sample(self, _number: int, frame: FrameType | None) -> None:
        self._samples += 1
        self._add(MAIN, frame, time.thread_time_ns() - self._main_ns)
        used = [(ident, thread.name, ns) for ident, thread in self._threads.items() if (ns := thread.used_since())]
        if used:
            frames = sys._current_frames()
            for ident, name, ns in used:
                self._add(name, frames.get(ident), ns)
        self._main_ns = time.thread_time_ns()  # the profile leaves out what it costs itself

    def _add(self, thread: str, frame: FrameType | None, ns: int) -> None:
        codes = tuple(_outwards(frame))
        self._stacks[thread, codes] += ns

    def result(self) -> Profile:
        modules = {getattr(module, "__file__", None): name for name, module in sys.modules.copy().items()}
        stacks: defaultdict[Stack, int] = defaultdict(int)
        for (thread, codes), ns in self._stacks.items():
            stacks[_plain(thread), *(_name(code, modules) for code in reversed(codes[-FRAMES_MAX:]))] += ns
        return Profile(dict(stacks), self._samples, time.monotonic() - self._began_at)


def _outwards(frame: FrameType | None) -> Iterator[CodeType]:
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def _name(code: CodeType, modules: Mapping[str | None, str]) -> str:
    """`package.module:function`. `modules`: their names by file."""
    module = modules.get(code.co_filename) or code.co_filename.rpartition("/")[2]
    return _plain(f"{module}:{code.co_qualname}")


def _plain(name: str) -> str:
    """Without what separates names in a collapsed stack."""
    return name.replace(";", ",").replace(" ", "_").replace("\n", "_")
