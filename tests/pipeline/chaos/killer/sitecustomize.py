"""Kills processes of a job at named steps. Driver and workers import it at their start, if its folder is on Python's path.

The folder CHAOS_DIRECTORY holds the plan: a file `armed` with a line for each kill, which has a victim, a step, and how often a
process lets the step pass. Whoever takes that file away is the one that kills. It leaves the lines that follow, and adds its own
to `fired`.

Three victims are not killed. `hold`: a task's first attempt waits until it is released. `release`: a later attempt lets the held
one go on. `overtake`: so it does, and then waits until Spark kills it.
"""

import os
import signal
import time
from pathlib import Path

DIRECTORY = Path(os.environ["CHAOS_DIRECTORY"])
ARMED, TAKEN = DIRECTORY / "armed", DIRECTORY / f"taken-{os.getpid()}"
RELEASED = DIRECTORY / "released"
POLL_S, HELD_S = 0.02, 120.0


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


def kill(victim: str) -> None:
    if victim == "driver":
        os.killpg(int((DIRECTORY / "driver").read_text(encoding="utf-8")), signal.SIGKILL)
    if victim == "executor":
        os.kill(parent_of(os.getppid()), signal.SIGKILL)  # worker, daemon, executor
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for_release() -> None:
    until = time.monotonic() + HELD_S
    while time.monotonic() < until:
        try:
            RELEASED.unlink()
        except FileNotFoundError:
            time.sleep(POLL_S)
        else:
            return


def act(victim: str) -> None:
    if victim in ("release", "overtake"):
        RELEASED.touch()
    if victim == "hold":
        wait_for_release()
    elif victim == "overtake":
        time.sleep(HELD_S)
    elif victim != "release":
        kill(victim)


def is_for_this_attempt(victim: str) -> bool:
    if victim not in ("hold", "release", "overtake"):
        return True
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and (context.attemptNumber() == 0) == (victim == "hold")


def take(plan: list[str]) -> bool:
    """False if another process has taken the plan, or has put another one in its place."""
    try:
        os.rename(ARMED, TAKEN)
    except FileNotFoundError:
        return False
    if TAKEN.read_text(encoding="utf-8").splitlines() != plan:
        os.rename(TAKEN, ARMED)
        return False
    with open(DIRECTORY / "fired", "a", encoding="utf-8") as fired:
        fired.write(f"{plan[0]}\n")
    if plan[1:]:
        TAKEN.write_text("\n".join(plan[1:]), encoding="utf-8")
        os.rename(TAKEN, ARMED)
    return True


class Killer:
    def __init__(self) -> None:
        self._plan: list[str] = []
        self._passed = 0

    def __call__(self, reached: str) -> None:
        try:
            plan = ARMED.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return
        if plan != self._plan:
            self._plan, self._passed = plan, 0
        victim, step, times = plan[0].split("/")
        if reached != step or not is_for_this_attempt(victim):
            return
        self._passed += 1
        if self._passed > int(times) and take(plan):
            act(victim)


def install() -> None:
    from services.pipeline.sink import steps

    steps.observe(Killer())


install()
