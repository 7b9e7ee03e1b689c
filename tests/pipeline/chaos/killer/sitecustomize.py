"""Kills processes of a job at a named step. Driver and workers import it at their start, if its folder is on Python's path.

The folder CHAOS_DIRECTORY holds the plan: a file `armed` with a victim, a step, and how often the step is let pass. Whoever takes
that file away is the one that kills.
"""

import os
import signal
from pathlib import Path

DIRECTORY = Path(os.environ["CHAOS_DIRECTORY"])


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill(victim: str) -> None:
    if victim == "driver":
        os.killpg(int((DIRECTORY / "driver").read_text()), signal.SIGKILL)
    if victim == "executor":
        os.kill(parent_of(os.getppid()), signal.SIGKILL)  # worker, daemon, executor
    os.kill(os.getpid(), signal.SIGKILL)


class Killer:
    def __init__(self) -> None:
        self.passed = 0

    def __call__(self, reached: str) -> None:
        try:
            victim, step, times = (DIRECTORY / "armed").read_text().split("/")
        except FileNotFoundError:
            return
        if reached != step:
            return
        self.passed += 1
        if self.passed > int(times):
            try:
                os.rename(DIRECTORY / "armed", DIRECTORY / "fired")
            except FileNotFoundError:
                return
            kill(victim)


def install() -> None:
    from services.pipeline.sink import steps

    steps.observe(Killer())


install()
