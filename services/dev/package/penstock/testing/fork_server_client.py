"""The fork server of this process: started for the first cluster, ended with the process."""

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass

END_S_MAX = 5.0


class ForkServerGone(Exception):
    """The process that clusters are forked from could not be started, or has ended."""


@dataclass(frozen=True, slots=True)
class _ForkServer:
    control: socket.socket
    process: subprocess.Popen[bytes]
    started_by: int
    """The id of the process that started it. A fork of that process needs one of its own."""


_lock = threading.Lock()
_current: _ForkServer | None = None


def request_cluster(request: Mapping[str, object], lifeline: socket.socket) -> None:
    """Has a cluster forked that answers at `lifeline`. Raises ForkServerGone."""
    with _lock:
        server = _running()
        try:
            socket.send_fds(server.control, [json.dumps(request).encode()], [lifeline.fileno()])
        except OSError as error:
            _end()
            raise ForkServerGone("the process that clusters are forked from has ended; what it said is on stderr") from error


def _running() -> _ForkServer:
    global _current
    if _current is not None and (_current.started_by != os.getpid() or _current.process.poll() is not None):
        _end()
    if _current is None:
        _current = _start()
        atexit.register(_end)
    return _current


def _start() -> _ForkServer:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "penstock.testing.server", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C ends the tests, and they end their clusters
            )
        except OSError as error:
            ours.close()
            raise ForkServerGone(f"{sys.executable} could not be started: {error}") from error
    return _ForkServer(ours, process, os.getpid())


def _end() -> None:
    global _current
    if _current is None:
        return
    server, _current = _current, None
    server.control.close()
    if server.started_by != os.getpid():
        server.process.returncode = 0  # it is not a child of this process, which cannot wait for it
        return
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.process.wait(END_S_MAX)
