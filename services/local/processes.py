"""Starting, finding and ending processes by what the kernel says of them."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
_PSS = ("Pss", "Pss_File")
STARTED_FIELD = 19
"""Of /proc/PID/stat, after the name of the program: the start, in ticks since the kernel's."""


def spawn(argv: Sequence[str], *, environment: Mapping[str, str], directory: Path, log: Path) -> subprocess.Popen[bytes]:
    """Starts a process in a session of its own: a terminal's Ctrl-C and hang-up do not reach it. Output is appended to `log`."""
    with open(log, "ab") as output:
        return subprocess.Popen(
            argv,
            env=dict(environment),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def command_line(pid: int) -> list[str]:
    """Its arguments; empty for a process that is gone, or dead and not yet reaped. Without empty ones at the end, which a process
    has that replaced its arguments by shorter ones (own_title.py)."""
    try:
        arguments = (PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [os.fsdecode(argument) for argument in arguments.split(b"\0")] if arguments else []


def environment(pid: int) -> dict[str, str]:
    """What it was started with; empty for a process that is gone, or another user's."""
    try:
        entries = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if entry)
    return {name: value for name, _, value in pairs}


def working_directory(pid: int) -> Path | None:
    """None for a process that is gone, or another user's."""
    try:
        return Path(os.readlink(PROC / str(pid) / "cwd"))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def age_s(pid: int) -> float | None:
    """The time since it started, also while the host slept: at least so long, since the kernel rounds a start down to a tick.
    None for a process that is gone."""
    try:
        fields = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - (int(fields[STARTED_FIELD]) + 1) / os.sysconf("SC_CLK_TCK")


def has_argument(pid: int, mark: str) -> bool:
    return mark in command_line(pid)


def find_by_argument(wanted: Callable[[str], bool]) -> list[tuple[int, str]]:
    """(pid, argument) of every process of which an argument is wanted."""
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            found += [(int(entry.name), argument) for argument in command_line(int(entry.name)) if wanted(argument)]
    return found


def read_pid(file: Path) -> int | None:
    try:
        return int(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def write_pid(file: Path, pid: int) -> None:
    beside = file.with_suffix(".tmp")
    beside.write_text(f"{pid}\n", encoding="utf-8")
    beside.replace(file)


def end(
    pids: Sequence[int],
    *,
    timeout_s: float,
    tell: Callable[[Sequence[int]], None] = lambda pids: None,
    tell_after_s: float = 3.0,
) -> list[int]:
    """SIGTERM to all, SIGKILL to those that are still there after `timeout_s`. Returns the handles of the killed ones.

    `tell` is called with those that are there after `tell_after_s`.
    """
    handles: dict[int, int] = {}  # pidfd -> pid: a pidfd never means another process, even when the pid is reused
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            handles[os.pidfd_open(pid)] = pid
    try:
        for handle in handles:
            _signal(handle, signal.SIGTERM)
        stubborn = _wait(set(handles), min(timeout_s, tell_after_s))
        if stubborn and timeout_s > tell_after_s:
            tell([handles[handle] for handle in stubborn])
            stubborn = _wait(stubborn, timeout_s - tell_after_s)
        for handle in stubborn:
            _signal(handle, signal.SIGKILL)
        _wait(stubborn, 10.0)
        return sorted(handles[handle] for handle in stubborn)
    finally:
        for handle in handles:
            os.close(handle)


def _signal(handle: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, number)


def _wait(handles: set[int], timeout_s: float) -> set[int]:
    """Waits until all have ended. Returns the handles of those that have not."""
    deadline = time.monotonic() + timeout_s
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    left = set(handles)
    while left and (remaining := deadline - time.monotonic()) > 0:
        for handle, _ in poll.poll(remaining * 1000):
            poll.unregister(handle)
            left.discard(handle)
    return left


class Memory(NamedTuple):
    """Proportional set sizes: what is shared with other processes counts once over all of them."""

    own_bytes: int
    """What the process allocated."""
    mapped_bytes: int
    """Pages of files, which the kernel may take back: programs, and logs that a gateway reads."""


def memory_of(pid: int) -> Memory | None:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    sizes = {name: int(value.split()[0]) * 1024 for name, _, value in (line.partition(":") for line in lines) if name in _PSS}
    if "Pss" not in sizes:
        return None
    mapped = sizes.get("Pss_File", 0)
    return Memory(sizes["Pss"] - mapped, mapped)
