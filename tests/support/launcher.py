"""The launcher's commands, as `make` runs them."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.requirements import ROOT


def run_launcher(run: Path, command: str, *arguments: str, succeeds: bool = True, timeout_s: float = 120) -> str:
    """Runs `python -m services.local COMMAND` on a run directory. Returns what it said."""
    argv = [sys.executable, "-m", "services.local", command, f"--run={run}", *arguments]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=timeout_s)
    assert (done.returncode == 0) == succeeds, done.stdout + done.stderr
    return done.stdout + done.stderr


def run_unheard(run: Path, command: str, *arguments: str, timeout_s: float = 120) -> int:
    """Runs the command with an output that nobody reads, as before `| head` that has ended. Returns the exit code."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        argv = [sys.executable, "-m", "services.local", command, f"--run={run}", *arguments]
        return subprocess.run(argv, cwd=ROOT, stdout=writer, stderr=writer, timeout=timeout_s).returncode
    finally:
        os.close(writer)
