"""Child processes for work that loops over records or blocks. It may take a core for seconds while the event loop goes on.

A child does one job at a time and is kept for the next. It dies with its parent, even if the parent is killed. Jobs and results
are pickled, since both ends are this program. Tests and the simulator replace the children and do the work in place.
"""

import asyncio
import contextlib
import json
import pickle
import socket
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

from libs.lean_dataclass import dataclass
from libs.telemetry.logs import LogSettings

A = TypeVar("A")
R = TypeVar("R")
Report = Callable[[object], None]
"""A job's report of its progress while it runs."""
Work = Callable[[A, Report], R]
"""A function of a module, since a child process finds it by its name."""

LENGTH = struct.Struct(">Q")
READ_BYTES = 1 << 20


class ChildDied(Exception):
    """The process that had the job ended without an answer: killed, out of memory, or a crash of the interpreter."""


class ChildStalled(ChildDied):
    """A child process that reported no progress for longer than was allowed, and was killed for that."""


class Children(Protocol):
    def run(
        self, work: "Work[A, R]", argument: A, on_progress: Report | None = None, *, quiet_s: float | None = None
    ) -> "asyncio.Future[R]":
        """Runs a job; jobs begin in the order of calls. An exception of the work is raised here.

        ChildDied: the job ended without a result, and its process is gone, so nothing of it goes on. `quiet_s`: how long the job
        may run without a report before its process is killed (ChildStalled).

        Cancelling the future ends the job at once, at whatever step it is.
        """
        ...

    def close(self) -> None:
        """Ends all jobs at once. Jobs that wait for a child are cancelled."""
        ...


@dataclass(slots=True, eq=False)
class _Job:
    future: "asyncio.Future[Any]"
    message: bytes
    on_progress: Report | None
    quiet_s: float | None


class ChildProcesses:
    """At most `count` child processes, started when there is work. `nice`: how much they yield to other processes, 0 to 19.
    `log_settings`: those of this process, whose log file they share."""

    def __init__(self, name: str, count: int, *, nice: int = 0, log_settings: LogSettings | None = None) -> None:
        self._count = count
        self._arguments = (str(nice), name, json.dumps(asdict(log_settings or LogSettings())))
        self._name = name
        self._waiting: deque[_Job] = deque()
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()
        self._closed = False

    def run(
        self, work: "Work[A, R]", argument: A, on_progress: Report | None = None, *, quiet_s: float | None = None
    ) -> "asyncio.Future[R]":
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        message = pickle.dumps((work, argument), protocol=pickle.HIGHEST_PROTOCOL)
        if self._closed:
            future.cancel()
            return future
        self._waiting.append(_Job(future, message, on_progress, quiet_s))
        self._give()
        return future

    def close(self) -> None:
        self._closed = True
        for job in self._waiting:
            job.future.cancel()
        self._waiting.clear()
        for child in list(self._all):
            child.end()

    def _give(self) -> None:
        while self._waiting:
            if self._waiting[0].future.done():
                self._waiting.popleft()
                continue
            if self._idle:
                child = self._idle.pop()
            elif len(self._all) < self._count:
                try:
                    child = _Child(self._arguments, self._returned)
                except OSError as error:
                    if self._all:
                        return  # too many processes or files: a child that runs takes the job when it is done
                    self._waiting.popleft().future.set_exception(ChildDied(f"{self._name}: no process for it: {error}"))
                    continue
                self._all.add(child)
            else:
                return
            child.begin(self._waiting.popleft())

    def _returned(self, child: "_Child", *, alive: bool) -> None:
        if alive:
            self._idle.append(child)
        else:
            self._all.discard(child)
            if child in self._idle:
                self._idle.remove(child)
        self._give()


class _Child:
    """A child process and the socket to it. `returned` is called after each job that ended, and at the child's own end."""

    def __init__(self, arguments: Sequence[str], returned: Callable[..., None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._returned = returned
        self._job: _Job | None = None
        self._buffer = bytearray()
        self._unsent = memoryview(b"")
        self._timer: asyncio.TimerHandle | None = None
        self._stalled = False
        parent_socket, child_socket = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "libs.runtime.child", str(child_socket.fileno()), *arguments],
                pass_fds=(child_socket.fileno(),),
                stdin=subprocess.DEVNULL,
            )
        except OSError:
            parent_socket.close()
            raise
        finally:
            child_socket.close()
        parent_socket.setblocking(False)
        self._socket = parent_socket
        self._loop.add_reader(parent_socket, self._readable)

    def begin(self, job: _Job) -> None:
        self._job = job
        job.future.add_done_callback(self._ended_outside)
        self._unsent = memoryview(LENGTH.pack(len(job.message)) + job.message)
        self._wait_for_more()
        self._writable()

    def _wait_for_more(self) -> None:
        """Restarts the timer of a silent child: it has just begun a job, or reported."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._job is not None and self._job.quiet_s is not None:
            self._timer = self._loop.call_later(self._job.quiet_s, self._stall)

    def _stall(self) -> None:
        self._stalled = True
        self.end()

    def _ended_outside(self, future: "asyncio.Future[Any]") -> None:
        if self._job is not None and self._job.future is future:  # it was cancelled, so the answer is not needed
            self.end()

    def _writable(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._writable)
            return
        except OSError:
            self.end()
            return
        self._loop.remove_writer(self._socket)

    def _readable(self) -> None:
        try:
            received = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self.end()
            return
        self._buffer += received
        while len(self._buffer) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._buffer)
            if len(self._buffer) < LENGTH.size + length:
                return
            message = bytes(self._buffer[LENGTH.size : LENGTH.size + length])
            del self._buffer[: LENGTH.size + length]
            self._on_message(*pickle.loads(message))

    def _on_message(self, kind: str, value: Any) -> None:
        job = self._job
        assert job is not None
        if kind == "progress":
            self._wait_for_more()
            if job.on_progress is not None:
                job.on_progress(value)
            return
        self._job = None
        self._wait_for_more()
        if job.future.done():
            self.end()  # cancelled in this very moment
            return
        if kind == "done":
            job.future.set_result(value)
        else:
            job.future.set_exception(value)
        self._returned(self, alive=True)

    def end(self) -> None:
        if self._socket.fileno() < 0:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._process.kill()
        # In a thread of its own: a disk that does not answer can hold up even a killed process for any length of time.
        threading.Thread(target=self._reap, name=f"end of {self._process.pid}", daemon=True).start()

    def _reap(self) -> None:
        status = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop may have ended before the child
            self._loop.call_soon_threadsafe(self._reaped, status)

    def _reaped(self, status: int) -> None:
        job, self._job = self._job, None
        if job is not None and not job.future.done():
            stalled = ChildStalled(f"the process of the job was killed, it made no progress for {job.quiet_s} s")
            job.future.set_exception(
                stalled if self._stalled else ChildDied(f"the process of the job ended with status {status}")
            )
        self._returned(self, alive=False)
