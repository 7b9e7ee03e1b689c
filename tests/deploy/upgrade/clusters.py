"""A cluster that the former version's launcher started, and how its processes change their version."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from services.local.asked_health import ask_health
from services.local.cluster_health import HEALTHY
from services.local.etcd_setup import etcd_binary
from services.local.run_directory import UNKNOWN_BEFORE
from services.local.upgrade import ADDED, ORDER
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.support.previous_version import previous_python, previous_source
from tests.support.requirements import ROOT

FORMER_LAUNCHER = Path(__file__).parent / "programs" / "former_launcher.py"
COMMAND_WITHIN_S = 240.0


class UpgradedCluster(LocalCluster):
    """Use as a context manager: it begins with the former version, in all processes."""

    def up(self) -> None:
        self._former("up")

    def upgrade(self) -> list[str]:
        """`make upgrade`; its output."""
        return self.command("upgrade")

    def roll_back(self) -> None:
        """Ends the quota managers, which the former version lacks. Then its launcher restarts one process after the other, each
        when the cluster is healthy."""
        for name in [name for name in self.names if name.startswith("quota_manager-")]:
            self.kill(name, signal.SIGTERM)
        for name in sorted(self.names, key=lambda name: [*ORDER, "etcd"].index(name.partition("-")[0])):
            if name != "etcd" and not name.startswith("quota_manager-"):
                self._former("restart", name)
                eventually(self._is_healthy_as_before, COMMAND_WITHIN_S)

    def _is_healthy_as_before(self) -> bool:
        """Whether it is healthy without the processes that the former version lacks."""
        statuses = [status for status in self._cluster.status(with_memory=False) if status.plan.role not in ADDED]
        return ask_health(statuses).verdict == HEALTHY

    def command(self, name: str) -> list[str]:
        """The output of a command of this version's launcher."""
        argv = [sys.executable, "-m", "services.local", name, "--run", str(self.run.path)]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=COMMAND_WITHIN_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    def _former(self, *command: str) -> None:
        source = previous_source()
        shape = {name: value for name, value in asdict(self.shape).items() if name not in UNKNOWN_BEFORE}
        arguments = [str(self.run.path), str(previous_python(source)), str(etcd_binary(ROOT)), json.dumps(shape)]
        argv = [sys.executable, str(FORMER_LAUNCHER), *arguments, *command]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        done = subprocess.run(argv, env=environment, capture_output=True, encoding="utf-8", timeout=COMMAND_WITHIN_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
