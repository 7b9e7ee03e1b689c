"""Runs of `python -m services.pipeline run` in processes of their own, that somebody may kill."""

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.polling import eventually
from tests.support.requirements import ROOT

KILLER = Path(__file__).parent / "killer"
RUN_WITHIN_S = 900.0


@dataclass(frozen=True)
class Kill:
    """`victim`: task (its worker process), driver (with Spark's JVM), executor. The first `passes` times, the step is passed.

    `hold`, `release` and `overtake` kill nobody: see `killer/sitecustomize.py`.
    """

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

    def run_to_the_end(self, *kills: Kill) -> None:
        """The kills come one after another. Raises AssertionError if a run fails by itself, or if a kill did not come."""
        (self._directory / "armed").write_text(
            "\n".join(f"{kill.victim}/{kill.step}/{kill.passes}" for kill in kills), encoding="utf-8"
        )
        while True:
            fired_before = self._fired()
            returncode = self._run()
            fired = self._fired()
            if returncode == 0 and fired == len(kills):
                return
            assert fired > fired_before, (
                f"the job failed by itself, or nothing killed it ({returncode}, {fired} of {kills}):\n{self.log()[-6000:]}"
            )

    def log(self) -> str:
        return (self._directory / "job.log").read_text(errors="replace", encoding="utf-8")

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
        (self._directory / "driver").write_text(str(process.pid), encoding="utf-8")
        return process

    def _run(self) -> int:
        process = self.start()
        try:
            return process.wait(RUN_WITHIN_S)
        finally:
            kill_group(process)

    def _fired(self) -> int:
        file = self._directory / "fired"
        return len(file.read_text(encoding="utf-8").splitlines()) if file.exists() else 0


def kill_group(leader: "subprocess.Popen[bytes]") -> None:
    """Whatever is left of a process group that this process has started. Returns when all of it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGKILL)
    leader.wait()  # until then the leader stays a member of its group
    eventually(lambda: not _is_there(leader.pid))


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
