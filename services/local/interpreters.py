"""Which of several Python 3.11 makes .venv. Builds differ in speed, by more than half between Debian's and one without
optimisations. Neither names nor build flags tell them apart. So each runs a short loop.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

NAME = "python3.11"
GIVEN = "PYTHON_GIVEN"
"""The variable by which `make PYTHON=…` says that the user has chosen."""
ROUNDS = 2
FASTER = 0.9
"""An interpreter is taken instead of the first one on PATH if it needs at most this share of its time."""
TIMEOUT_S = 20.0
LOOP = """
import ensurepip, time, venv
class Point:
    def __init__(self, x): self.x = x
    def moved(self, by): return Point(self.x + by)
def work():
    seen, point = {}, Point(0)
    for number in range(60_000):
        point = point.moved(number & 7)
        seen[number & 255] = (point.x, str(number & 15))
    return len(seen)
def timed():
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
print(min(timed() for _ in range(3)))
"""
"""Prints the seconds of the quickest of three runs. It fails where a virtual environment cannot be made."""


def choose(say: Callable[[str], None]) -> str:
    """The interpreter for .venv: the one that runs this, unless that was only the first on PATH and another one is faster."""
    found = _found()
    is_first = bool(found) and next(iter(found)) == os.path.realpath(sys.executable)
    others = list(found.values())[1:] if is_first and not os.environ.get(GIVEN) else []
    return quickest(sys.executable, others, loop_seconds, say)


def quickest(current: str, others: Sequence[str], seconds_of: Callable[[str], float | None], say: Callable[[str], None]) -> str:
    """`seconds_of`: the time that an interpreter needs for the loop; None: it cannot be used."""
    if not others:
        return current
    times: dict[str, float] = {}
    for _ in range(ROUNDS):
        for python in (current, *others):
            seconds = seconds_of(python)
            if seconds is not None:
                times[python] = min(seconds, times.get(python, seconds))
    best = min(times, key=lambda python: times[python], default=current)
    if current not in times or times[best] > FASTER * times[current]:
        return current
    share = times[best] / times[current]
    say(f"python: {best}, which takes {share:.0%} of the time of {current} (make PYTHON={current} takes that one)")
    return best


def _found() -> dict[str, str]:
    """The paths on PATH by the real path of the interpreter that each starts: a shim or a link is none by itself."""
    found: dict[str, str] = {}
    for directory in filter(None, os.environ.get("PATH", "").split(os.pathsep)):
        path = str(Path(directory) / NAME)
        if os.access(path, os.X_OK) and (real := _output(path, "import sys; print(sys.executable)")):
            found.setdefault(os.path.realpath(real), path)
    return found


def loop_seconds(python: str) -> float | None:
    """The time that an interpreter needs for the loop. None: it cannot make a virtual environment."""
    try:
        return float(_output(python, LOOP))
    except ValueError:
        return None


def _output(python: str, program: str) -> str:
    """What the program prints; empty if the interpreter cannot run it."""
    try:
        done = subprocess.run([python, "-c", program], capture_output=True, timeout=TIMEOUT_S, check=True)
        return os.fsdecode(done.stdout).strip()  # a path, in whatever bytes its folder has
    except (OSError, subprocess.SubprocessError):
        return ""
