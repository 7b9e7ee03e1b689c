"""One process of a test run from which the services of its clusters are forked: it has imported what they run.

A service that is started costs a second of CPU otherwise, nearly all of it for imports. A forked one has arguments, an
environment, a session, a log and a process id of its own, and shows them as `make up` does (`services/local/warm_start.py`).
What cannot come from there is started in the usual way: other interpreters, other checkouts, other variables.
"""

import atexit
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from services.local import own_title, warm_processes
from services.local.cluster import StartWarm
from services.local.python_setup import venv_python
from services.local.warm_processes import Prepared, asked_of, is_plain, shared
from services.local.warm_start import STAMPS_LATE_S, Service, become, prepare
from tests.support.requirements import ROOT

ROLES = ("controller", "storage", "group_coordinator", "transaction_coordinator", "quota_manager", "gateway")
ARGUMENTS_ROOM = "." * 2000
UNDER_PYTEST = "PYTEST_VERSION"
OF_PYTEST = "PYTEST_"
"""Variables that differ between tests, and that no service reads."""


class WarmParent:
    """Use as a context manager. The process starts when a service is first asked for. Services outlive it."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[str] | None = None
        self._variables: Mapping[str, str] = {}
        self._one_at_a_time = threading.Lock()

    @property
    def pid(self) -> int | None:
        return self._program.pid if self._program is not None else None

    def start(self, wanted: Sequence[Prepared], *, directory: Path) -> dict[str, int]:
        """Starts services of this checkout. Returns their pids by name; those that are missing were not started."""
        pids: dict[str, int] = {}
        with self._one_at_a_time, contextlib.suppress(OSError):  # a broken pipe: it has ended, whyever
            for each in wanted:
                if directory == ROOT and each.plan.argv[0] == str(venv_python(ROOT)) and is_plain(each.plan):
                    pids |= self._forked(each)
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

    def _forked(self, service: Prepared) -> dict[str, int]:
        variables = {name: value for name, value in shared(service.environment).items() if not name.startswith(OF_PYTEST)}
        if self._program is None:
            self._variables = variables
            self._program = _started(service, variables)
        if variables != self._variables:
            return {}
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(json.dumps(asked_of(service)) + "\n")
        self._program.stdin.flush()
        words = self._program.stdout.readline().split()
        return {words[0]: int(words[1])} if words else {}


def _started(service: Prepared, variables: Mapping[str, str]) -> "subprocess.Popen[str]":
    room, padding = own_title.room_for([(*service.plan.argv, ARGUMENTS_ROOM)], [service.environment])
    return subprocess.Popen(
        [service.plan.argv[0], "-m", "tests.support.warm_parent", *room],
        env={**variables, **padding},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        encoding="utf-8",
    )


def start_warm() -> StartWarm:
    """How the clusters of this process start services. Benchmarks measure starts, so theirs are the usual ones."""
    return _of_this_process().start if UNDER_PYTEST in os.environ else warm_processes.start


@cache
def _of_this_process() -> WarmParent:
    parent = WarmParent()
    atexit.register(parent.close)
    return parent


def main() -> None:
    """Reads services from its input, a line of JSON each. Answers each by `NAME PID`, or by an empty line: it was not started."""
    begun = time.time() - STAMPS_LATE_S
    gc.disable()
    for role in ROLES:
        prepare(f"services.{role}")
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
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
