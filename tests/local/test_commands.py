"""What a newcomer types, on the real services."""

import socket
import subprocess
import sys

import pytest

from tests.ports import reserve_ports
from tests.requirements import ROOT, require


@pytest.fixture
def penstock(tmp_path):
    """Runs `python -m services.local COMMAND` on a run directory of its own, as make does."""
    require("etcd")
    reservation = reserve_ports(100)

    def run(command: str, *arguments: str, succeeds: bool = True) -> list[str]:
        argv = [sys.executable, "-m", "services.local", command, f"--run={tmp_path / 'run'}", *arguments]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert (done.returncode == 0) == succeeds, done.stdout + done.stderr
        return (done.stdout + done.stderr).splitlines()

    run.port = reservation.first  # type: ignore[attr-defined]
    yield run
    run("wipe")
    reservation.release()


def test_up_status_down_and_wipe_tell_one_story(penstock, tmp_path):
    bootstrap = f"127.0.0.1:{penstock.port}"
    assert penstock("up", f"--port={penstock.port}", "--storage=2")[-1] == f"bootstrap.servers={bootstrap}"
    socket.create_connection(("127.0.0.1", penstock.port), timeout=60).close()

    table = {line.split()[0]: line.split() for line in penstock("status")}
    assert {name for name, row in table.items() if row[3:4] == ["yes"]} == {
        "etcd",
        "controller-1",
        "storage-1",
        "storage-2",
        "group_coordinator-1",
        "gateway-1",
    }

    assert "all of it is running" in penstock("up")
    assert any(row[0] == "controller-1" and row[4:6] == ["(in", "office)"] for row in map(str.split, penstock("status")))

    refused = penstock("up", f"--port={penstock.port + 1}", succeeds=False)[-1]
    assert "choose another RUN=" in refused
    assert f"runs as PORT={penstock.port} STORAGE=2 GATEWAYS=1 CONTROLLERS=1 COORDINATORS=1" in refused

    penstock("down")
    assert all(line.split()[3] == "down" for line in penstock("status")[1:7])
    assert "has data on 2 storage nodes" in penstock("up", "--storage=1", succeeds=False)[-1]

    assert penstock("up")[-1] == f"bootstrap.servers={bootstrap}"
    penstock("wipe")
    assert not (tmp_path / "run").exists()


def test_nothing_is_said_to_be_started_where_a_port_is_taken(penstock):
    with socket.create_server(("127.0.0.1", penstock.port)):
        said = penstock("up", f"--port={penstock.port}", succeeds=False)
    assert "is in use by" in said[-1]
    assert not any("starting" in line for line in said)


def test_status_of_nothing_says_how_to_get_something(penstock):
    assert "`make up` makes one" in penstock("status")[-1]


def test_make_alone_lists_the_targets():
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("up", "down", "wipe", "status", "test", "check", "clients", "bench", "docs"):
        assert f"  make {target} " in said


def test_make_takes_a_run_folder_with_blanks_in_its_name(tmp_path):
    said = subprocess.run(
        ["make", "-s", "status", f"RUN={tmp_path / 'my run'}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert said.stdout == f"no cluster in {tmp_path / 'my run'}; `make up` makes one\n", said.stderr
