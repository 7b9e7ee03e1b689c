"""A process from which services are forked one after the other, as an upgrade restarts them: it has imported what they run.

A service that is started costs a second of CPU otherwise, nearly all of it for imports, and its clients wait meanwhile. A forked
one has arguments, an environment, a session, a log and a process id of its own, as with `warm_start.py`. What cannot come from
there is started in the usual way: other interpreters, other checkouts, other variables, and code that has changed since.
"""

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from services.local import own_title, processes
from services.local.warm_processes import FORKED_WITHIN_S, Prepared, asked_of, is_plain, shared
from services.local.warm_start import STAMPS_LATE_S, Service, become, prepare

ARGUMENTS_ROOM = "." * 2000
IMPORTED = "imported"
"""What the process says once it can fork."""
ROLES = "WARM_ROLES"
"""The variable by which it hears whose code to import."""

Variables = Callable[[Mapping[str, str]], Mapping[str, str]]


class WarmParent:
    """Use as a context manager. The process starts when a service is first asked for, or expected. Services outlive it."""

    def __init__(self, root: Path, python: Path, roles: Collection[str], *, variables_of: Variables = shared) -> None:
        """`root`: the checkout whose code runs. `variables_of`: those of an environment in which services may not differ."""
        self._root, self._python, self._roles = root, python, roles
        self._variables_of = variables_of
        self._program: subprocess.Popen[str] | None = None
        self._variables: Mapping[str, str] = {}
        self._one_at_a_time = threading.Lock()
        self._was_late = False

    @property
    def pid(self) -> int | None:
        return self._program.pid if self._program is not None else None

    def expect(self, service: Prepared) -> None:
        """Returns once the code of services like that one is imported, if that can be."""
        with self._one_at_a_time, contextlib.suppress(OSError):
            if self._program is None and self._may_fork(service, self._root):
                self._start(service)

    def start(self, wanted: Sequence[Prepared], *, directory: Path) -> dict[str, int]:
        """Starts services. Returns their pids by name; those that are missing were not started."""
        pids: dict[str, int] = {}
        with self._one_at_a_time:
            for each in wanted:
                if self._may_fork(each, directory):
                    self._was_late = False
                    with contextlib.suppress(OSError):  # a broken pipe: it has ended, whyever
                        pids |= self._forked(each)
                    if self._was_late and each.plan.name not in pids:
                        _end_untold(each)
        return pids

    def close(self) -> None:
        """Ends the process, as the end of this one does: its standard input ends."""
        if self._program is not None:
            self._program.kill()
            self._program.communicate()
            self._program = None

    def __enter__(self) -> "WarmParent":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _may_fork(self, service: Prepared, directory: Path) -> bool:
        return directory == self._root and service.plan.argv[0] == str(self._python) and is_plain(service.plan)

    def _forked(self, service: Prepared) -> dict[str, int]:
        if self._program is None:
            self._start(service)
        if self._program is None or self._variables_of(service.environment) != self._variables:
            return {}
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        with self._bounded(self._program):
            self._program.stdin.write(json.dumps(asked_of(service)) + "\n")
            self._program.stdin.flush()
            words = self._program.stdout.readline().split()
        return {words[0]: int(words[1])} if words else {}

    def _start(self, service: Prepared) -> None:
        self._variables = self._variables_of(service.environment)
        room, padding = own_title.room_for([(*service.plan.argv, ARGUMENTS_ROOM)], [service.environment])
        self._program = subprocess.Popen(
            [service.plan.argv[0], "-m", "services.local.warm_parent", *room],
            env={**self._variables, **padding, ROLES: ",".join(self._roles)},
            cwd=self._root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            encoding="utf-8",
        )
        assert self._program.stdout is not None
        with self._bounded(self._program):
            self._program.stdout.readline()  # IMPORTED, or its end

    @contextlib.contextmanager
    def _bounded(self, program: subprocess.Popen[str]) -> Iterator[None]:
        """A scope that ends the process if it does not answer: clients of a service that was stopped wait. Reads then find its
        end, and writes a broken pipe."""

        def give_up() -> None:
            self._was_late = True
            program.kill()
            print(
                f"the process from which services are forked did not answer in {FORKED_WITHIN_S:g} s: it is ended, and services "
                "are started in the usual way",
                flush=True,
            )

        timer = threading.Timer(FORKED_WITHIN_S, give_up)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


def _end_untold(service: Prepared) -> None:
    """Ends a service that was forked by a process that was ended before it told so. One without its arguments yet ends by itself:
    nobody reads its report."""
    untold = processes.find_by_argument(lambda argument: argument == service.plan.mark)
    processes.end([pid for pid, _ in untold], timeout_s=0)


def main() -> None:
    """Reads services from its input, a line of JSON each. Answers each by `NAME PID`, or by an empty line: it was not started."""
    begun = time.time() - STAMPS_LATE_S
    gc.disable()
    for role in os.environ[ROLES].split(","):
        prepare(f"services.{role}")
    if len(os.listdir("/proc/self/task")) > 1:
        return  # a fork has no other thread, and what that one did would stay undone
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    print(IMPORTED, flush=True)
    for service in _asked():
        reader, writer = os.pipe()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(writer, sys.stdout.fileno())
            os.close(reader)
            os.close(writer)
            become(service, begun)
            return
        os.close(writer)
        with open(reader, "rb") as report:
            os.write(sys.stdout.fileno(), report.read() or b"\n")


def _asked() -> Iterator[Service]:
    while line := sys.stdin.readline():
        yield json.loads(line)


if __name__ == "__main__":
    main()
