"""The launcher's commands, on a run directory of their own."""

import subprocess
import sys

import pytest

from tests.support.ports import reserve_ports
from tests.support.requirements import ROOT, require


@pytest.fixture
def penstock(tmp_path):
    """Runs `python -m services.local COMMAND` on a run directory of its own, as make does."""
    require("etcd")
    reservation = reserve_ports(200)

    def run(command: str, *arguments: str, succeeds: bool = True) -> list[str]:
        argv = [sys.executable, "-m", "services.local", command, f"--run={tmp_path / 'run'}", *arguments]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert (done.returncode == 0) == succeeds, done.stdout + done.stderr
        return (done.stdout + done.stderr).splitlines()

    run.port = reservation.first  # type: ignore[attr-defined]
    yield run
    run("wipe")
    reservation.release()
