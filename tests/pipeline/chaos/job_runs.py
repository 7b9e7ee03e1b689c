"""Runs of `python -m services.pipeline run` in processes of their own, that somebody may kill."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.requirements import ROOT

KILLER = Path(__file__).parent / "killer"
RUN_WITHIN_S = 400.0
RUNS_MAX = 6


@dataclass(frozen=True)
class Kill:
    """`victim`: task (its worker process), driver (with Spark's JVM), executor. The first `passes` times, the step is passed."""

    victim: str
    step: str
    passes: int = 0

    def __str__(self) -> str:
        return f"{self.victim} {self.step}{f' (time {self.passes + 1})' if self.passes else ''}"


class KilledJob:
    """A job file that is run until a run ends well."""

    def __init__(self, directory: Path, job_file: Path) -> None:
        self._directory = directory
        self._job_file = job_file
        self.runs = 0

    def run_to_the_end(self, kill: Kill | None) -> None:
        """Raises AssertionError if a run fails that nobody killed, or if the kill did not come."""
        if kill is not None:
            (self._directory / "armed").write_text(f"{kill.victim}/{kill.step}/{kill.passes}")
        for _ in range(RUNS_MAX):
            fired_before = self._fired()
            returncode = self._run()
            if returncode == 0 and (kill is None or self._fired()):
                return
            killed = self._fired() and not fired_before
            assert killed, f"the job failed by itself, or nothing killed it ({returncode}):\n{self.log()[-6000:]}"
        raise AssertionError(f"no run of {RUNS_MAX} ended well:\n{self.log()[-6000:]}")

    def log(self) -> str:
        return (self._directory / "job.log").read_text(errors="replace")

    def start(self) -> "subprocess.Popen[bytes]":
        self.runs += 1
        path = os.pathsep.join([str(KILLER), str(ROOT)])
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            "CHAOS_DIRECTORY": str(self._directory),
            "PYSPARK_PYTHON": sys.executable,
        }
        command = [sys.executable, "-m", "services.pipeline", "run", str(self._job_file)]
        with open(self._directory / "job.log", "ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self._directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (self._directory / "driver").write_text(str(process.pid))
        return process

    def _run(self) -> int:
        process = self.start()
        try:
            return process.wait(RUN_WITHIN_S)
        finally:
            kill_group(process.pid)

    def _fired(self) -> bool:
        return (self._directory / "fired").exists()


def kill_group(leader: int) -> None:
    """Whatever is left of a run. Returns when it is gone."""
    try:
        os.killpg(leader, signal.SIGKILL)
        while True:
            os.killpg(leader, 0)
            time.sleep(0.01)
    except ProcessLookupError:
        return
