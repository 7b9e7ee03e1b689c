"""The program that a launcher starts several services with: it imports what they run, and forks each of them from itself.

An import happens once instead of in every service, and its pages are shared. It reads one JSON list of services (`Service`) from
its input, writes `NAME PID` for each that runs, and ends: no later start can get old code from it. A service that it does not
name was not started: whoever asked starts it in the usual way, and hears from that what is wrong.

A forked service is what `python -m services.ROLE` would be: its arguments, environment, session, log and process id are its own.
Only its parent is gone, as it is when a launcher has ended.
"""

import gc
import importlib
import json
import os
import runpy
import sys
import time
from pathlib import Path
from typing import TypedDict

from services.local import own_title
from services.local.running_code import changed_at

STAMPS_LATE_S = 0.01
"""The kernel stamps files by a clock that may be a tick behind."""
LATER = ("libs.runtime.etcd_store", "aiohttp.web")
"""What a service imports while it starts. None of it starts a thread."""


class Service(TypedDict):
    name: str
    argv: list[str]
    environment: dict[str, str]
    log: str
    """The file that its output is appended to."""


def main() -> None:
    begun = time.time() - STAMPS_LATE_S
    services: list[Service] = json.load(sys.stdin)
    gc.disable()
    for service in services:
        prepare(service["argv"][-1])
        if len(os.listdir("/proc/self/task")) > 1:
            break  # a fork has no other thread, and what that one did would stay undone
        gc.freeze()  # a collection in one service would copy the pages of all that it looks at
        if os.fork() == 0:
            become(service, begun)
            return
    os._exit(0)


def prepare(module: str) -> None:
    """Imports what the service of that package runs."""
    for each in (f"{module}.__main__", *LATER):
        importlib.import_module(each)


def become(service: Service, begun: float) -> None:
    """Runs the program of the service to its end. `begun`: the wall time before anything of a service was imported."""
    os.setsid()
    report = os.dup(1)
    _redirect(service["log"])
    # A process is taken to run the code of its own start. Code that changed since the imports began must not be.
    if changed_at(Path.cwd()) >= begun or not own_title.replace(service["argv"], service["environment"]):
        os._exit(1)
    sys.orig_argv[:] = service["argv"]
    sys.argv[:] = [service["argv"][-1]]
    os.write(report, f"{service['name']} {os.getpid()}\n".encode())
    os.close(report)
    gc.enable()
    module = service["argv"][-1]
    del sys.modules[f"{module}.__main__"]  # runpy warns of a program that was imported before
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _redirect(log: str) -> None:
    nothing, output = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)


if __name__ == "__main__":
    main()
