"""The main program of a child process of `libs.runtime.children`: it takes a job, does it, answers, and takes the next.

`python -m libs.runtime.child DESCRIPTOR NICENESS NAME LOG_SETTINGS`, started by its parent only. The settings are JSON.
"""

import contextlib
import ctypes
import json
import os
import pickle
import signal
import socket
import sys

from libs.runtime.children import LENGTH
from libs.runtime.ending import run_program
from libs.telemetry import logs

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15


def main(descriptor: int, nice: int, name: str, log_settings: logs.LogSettings) -> None:
    # The parent may be killed at any time. A job that went on alone would write beside that of the next parent.
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.prctl(PR_SET_NAME, name.encode()[:15])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent decides when we end
    os.nice(nice)
    logs.configure("storage", name, log_settings, shares_file=True)
    with socket.socket(fileno=descriptor) as connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while (message := _receive(connection)) is not None:
            _send(connection, _do(connection, message))  # the socket may be the first sign of a parent's death


def _do(connection: socket.socket, message: bytes) -> tuple[str, object]:
    try:
        work, argument = pickle.loads(message)
        return "done", work(argument, lambda value: _send(connection, ("progress", value)))
    except Exception as error:
        error.add_note(f"in the child process {os.getpid()}")
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return "failed", RuntimeError(f"{type(error).__name__}: {error}")
        return "failed", error


def _send(connection: socket.socket, answer: tuple[str, object]) -> None:
    message = pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)
    connection.sendall(LENGTH.pack(len(message)) + message)


def _receive(connection: socket.socket) -> bytes | None:
    """None when the parent is gone."""
    head = _exactly(connection, LENGTH.size)
    return None if head is None else _exactly(connection, LENGTH.unpack(head)[0])


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    buffer = bytearray(count)
    view = memoryview(buffer)
    while view:
        received = connection.recv_into(view)
        if not received:
            return None
        view = view[received:]
    return bytes(buffer)


if __name__ == "__main__":
    run_program(lambda: main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], logs.LogSettings(**json.loads(sys.argv[4]))))
