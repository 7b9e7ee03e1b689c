"""Runs pytest, and leaves none of its processes behind: `python -m tests.support.contained_run ARGUMENTS`.

Clusters of tests are sessions of their own, so neither Ctrl-C nor a signal to pytest reaches them, and an interrupted worker of
xdist ends no fixture. Here all that outlives its parent becomes a child of this process, which ends it, and waits for it when it
ends by itself: until then a test would still find its process, or its process group.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

PR_SET_CHILD_SUBREAPER = 36
END_S_MAX = 20.0
"""The time that pytest has to end its fixtures. A second signal cuts it short."""
ONE_SIGNAL_S = 1.0
"""Signals within this time are one: `timeout` and make both pass a signal on, so it comes twice."""
KILLS = 100


def run(arguments: Sequence[str]) -> int:
    """The exit code of pytest, or 128 and the number of the signal that ended it."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    received: list[int] = []
    last_s = float("-inf")

    def forward(number: int, _: FrameType | None) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s - last_s < ONE_SIGNAL_S:
            return
        last_s = now_s
        received.append(number)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pytest.pid, signal.SIGINT)  # which ends fixtures

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signals, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler is what makes it wake this process
    pytest = subprocess.Popen([sys.executable, "-m", "pytest", *arguments], start_new_session=True, preexec_fn=_default_signals)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward)
    try:
        code = _wait(pytest, received, signals)
    finally:
        end_descendants()
    return 128 + received[0] if received else code


def _default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _wait(pytest: "subprocess.Popen[bytes]", received: list[int], signals: int) -> int:
    """Sleeps until a signal comes, which `signals` tells, also of a child that ended."""
    deadline = float("inf")
    while True:
        wait_for_ended_orphans(pytest.pid)
        if (code := pytest.poll()) is not None:
            return code
        if received:
            deadline = min(deadline, time.monotonic() + END_S_MAX)
        if len(received) > 1 or time.monotonic() > deadline:
            return 1
        select.select([signals], [], [], max(0.0, deadline - time.monotonic()) if received else None)
        with contextlib.suppress(BlockingIOError):
            os.read(signals, 4096)


def wait_for_ended_orphans(pytest: int) -> None:
    """They remain in the process table until then. The exit code of `pytest` is left alone."""
    while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid != pytest:
        os.waitpid(ended.si_pid, 0)


def end_descendants() -> None:
    """Kills all processes below this one. One that forks meanwhile leaves a child to this process, which the next look finds."""
    for _ in range(KILLS):
        found = descendants(os.getpid())
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def descendants(root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: set[int] = set()
    left = [root]
    while left:
        below = [pid for pid in children.get(left.pop(), ()) if pid not in found]
        found.update(below)
        left.extend(below)
    return found


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
