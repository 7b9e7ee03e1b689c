"""The launcher's commands, on a run directory of their own."""

import pytest

from tests.support.launcher import run_launcher
from tests.support.ports import reserve_ports
from tests.support.requirements import require


@pytest.fixture
def penstock(tmp_path):
    """Runs `python -m services.local COMMAND` on a run directory of its own, as make does."""
    require("etcd")
    reservation = reserve_ports(200)

    def run(command: str, *arguments: str, succeeds: bool = True) -> list[str]:
        return run_launcher(tmp_path / "run", command, *arguments, succeeds=succeeds).splitlines()

    run.port = reservation.first  # type: ignore[attr-defined]
    yield run
    run("wipe")
    reservation.release()
