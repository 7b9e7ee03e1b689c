"""The pipeline's command line as a process of its own, which tests kill at a step and start again."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.requirements import ROOT

WITHIN_S, EXECUTOR_KILLS_WITHIN_S = 280.0, 1400.0


def run(file: Path, *jobs: str) -> "subprocess.CompletedProcess[str]":
    """All jobs of the file, unless some are named."""
    return _run([sys.executable, "-m", "services.pipeline", "run", str(file), *jobs])


def run_to_the_end(file: Path) -> None:
    done = run(file)
    assert done.returncode == 0, done.stderr[-3000:]


def run_until_killed(file: Path, step: str, *jobs: str) -> None:
    """`step` as in tests/pipeline/killing.py. Fails unless the step was reached."""
    done = _run([sys.executable, "-m", "tests.pipeline.killing", step, "run", str(file), *jobs])
    assert done.returncode == -signal.SIGKILL, f"{step}: ended with {done.returncode}\n{done.stderr[-3000:]}"


def run_while_executors_are_killed(file: Path, steps: Sequence[str], *jobs: str) -> None:
    """One driver, to its end. `steps` as in tests/pipeline/killing.py, of executors. Fails unless each of them was reached."""
    command = [sys.executable, "-m", "tests.pipeline.killing", *steps, "run", str(file), *jobs]
    done = _run(command, EXECUTOR_KILLS_WITHIN_S)
    assert done.returncode == 0, done.stderr[-3000:]
    reached = [line.removeprefix("killed ") for line in done.stderr.splitlines() if line.startswith("killed ")]
    assert sorted(reached) == sorted(steps)


def _run(command: list[str], within_s: float = WITHIN_S) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=within_s, start_new_session=True)
