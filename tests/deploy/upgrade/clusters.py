"""A cluster that the former version's launcher started, and how its processes change their version."""

import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from services.local.asked_health import ask_health
from services.local.cluster_health import HEALTHY
from services.local.etcd_setup import etcd_binary
from services.local.run_directory import UNKNOWN_BEFORE
from services.local.upgrade import ADDED, ORDER
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import Pending, eventually
from tests.support.previous_version import previous_python, previous_source
from tests.support.requirements import ROOT
from tests.support.steady_command import run_steadily

FORMER_LAUNCHER = Path(__file__).parent / "programs" / "former_launcher.py"
ASK_EVERY_S = 0.2
"""A question for the cluster's health is one for each process."""
STEP_WITHIN_S = 150.0
"""One process, from its stop until the cluster is healthy: as long as `services.local` lets one stop and get ready. With ten busy
processes for each core a step took 26 s, and a whole upgrade has 12 of them."""


class UpgradedCluster(LocalCluster):
    """Use as a context manager: it begins with the former version, in all processes."""

    def up(self) -> None:
        self._former("up")

    def upgrade(self) -> list[str]:
        """`make upgrade`; its output."""
        return self.command("upgrade")

    def forked(self) -> bool:
        """Whether all services came from the process of an upgrade: NULs are left where their arguments were replaced."""
        names = [name for name in self.names if name != "etcd"]
        return all(Path(f"/proc/{self.pid(name)}/cmdline").read_bytes().endswith(b"\0\0") for name in names)

    def roll_back(self) -> None:
        """Ends the quota managers, which the former version lacks. Then its launcher restarts one process after the other, each
        when the cluster is healthy."""
        for name in [name for name in self.names if name.startswith("quota_manager-")]:
            self.kill(name, signal.SIGTERM)
        for name in sorted(self.names, key=lambda name: [*ORDER, "etcd"].index(name.partition("-")[0])):
            if name != "etcd" and not name.startswith("quota_manager-"):
                self._former("restart", name)
                eventually(self._is_healthy_as_before, STEP_WITHIN_S, pause_s=ASK_EVERY_S)

    def _is_healthy_as_before(self) -> bool | Pending:
        """Whether it is healthy without the processes that the former version lacks."""
        health = ask_health([status for status in self._cluster.status(with_memory=False) if status.plan.role not in ADDED])
        return health.verdict == HEALTHY or Pending(health.sentence)

    def command(self, name: str) -> list[str]:
        """The output of a command of this version's launcher."""
        return run_steadily([sys.executable, "-m", "services.local", name, "--run", str(self.run.path)], step_s=STEP_WITHIN_S)

    def _former(self, *command: str) -> None:
        source = previous_source()
        shape = {name: value for name, value in asdict(self.shape).items() if name not in UNKNOWN_BEFORE}
        arguments = [str(self.run.path), str(previous_python(source)), str(etcd_binary(ROOT)), json.dumps(shape)]
        argv = [sys.executable, str(FORMER_LAUNCHER), *arguments, *command]
        run_steadily(argv, step_s=STEP_WITHIN_S, environment={**os.environ, "PYTHONPATH": str(source)})
