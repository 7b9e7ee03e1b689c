"""A standalone master with two workers on this machine, so that a job has executors that can be killed."""

import os
import subprocess
from pathlib import Path
from types import TracebackType

import pyspark

from tests.pipeline.chaos.job_runs import KILLER, kill_group
from tests.support.polling import eventually
from tests.support.ports import reserve_ports
from tests.support.requirements import ROOT

WORKER_HOSTS = ("127.0.0.1", "127.0.0.2")
"""Spark gives no two attempts of a task to one host."""
HOME = Path(pyspark.__file__).parent


class StandaloneMaster:
    """Use as a context manager. `directory`: for its log and its workers' folders."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._reservation = reserve_ports(2 + len(WORKER_HOSTS))
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._reservation.first}"

    def config(self, chaos: Path) -> dict[str, str]:
        """Settings of a job. `chaos`: the folder with the plan of kills, for the executors."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executorEnv.CHAOS_DIRECTORY": str(chaos),
            "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(KILLER), str(ROOT)]),
        }

    def __enter__(self) -> "StandaloneMaster":
        first = self._reservation.first
        self._start("Master", "--host", "127.0.0.1", "--port", str(first), "--webui-port", str(first + 1))
        for number, host in enumerate(WORKER_HOSTS):
            web = str(first + 2 + number)
            folder = str(self._directory / f"worker-{number}")
            options = ("--host", host, "--cores", "1", "--memory", "600m", "--webui-port", web, "--work-dir", folder)
            self._start("Worker", *options, self.url)
        eventually(lambda: self._log().count("Successfully registered with master") == len(WORKER_HOSTS), 120.0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self._started:
            kill_group(process)
        self._reservation.release()

    def _start(self, daemon: str, *arguments: str) -> None:
        environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_NO_DAEMONIZE": "1"}
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{daemon.lower()}.{daemon}", *arguments]
        with open(self._directory / "standalone.log", "ab") as log:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._started.append(process)

    def _log(self) -> str:
        return (self._directory / "standalone.log").read_text(errors="replace", encoding="utf-8")
