"""`make status` in clusters that were broken on purpose."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from services.local.processes import read_pid
from tests.compat.clients.admin import Admin
from tests.support.polling import eventually
from tests.support.ports import reserve_ports
from tests.support.requirements import ROOT, require


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster with a topic of three replicas, for all tests, each of which mends what it breaks."""
    require("etcd")
    reservation = reserve_ports(100)
    path = tmp_path_factory.mktemp("status") / "run"
    command(path, "up", f"--port={reservation.first}")
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{reservation.first}"})
    admin.create_topics([NewTopic("t", 2, 3)])["t"].result(60)
    yield path
    command(path, "wipe")
    reservation.release()


def command(run: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "services.local", name, f"--run={run}", *arguments]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120, check=False)


def sentence(run: Path) -> str:
    return command(run, "status").stdout.splitlines()[0]


def kill(run: Path, name: str, number: int = signal.SIGKILL) -> None:
    pid = read_pid(run / "pids" / f"{name}.pid")
    assert pid is not None
    os.kill(pid, number)


def test_a_whole_cluster_is_healthy_and_says_so_to_programs(run: Path) -> None:
    eventually(lambda: sentence(run) == "healthy")
    done = command(run, "status", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["verdict"], told["counts"]["offline"]) == (0, "healthy", 0)
    assert sum(told["leaders"].values()) == 2
    assert {process["name"] for process in told["processes"] if process["ready"]} >= {"etcd", "storage-3", "gateway-1"}
    assert all(
        process["memory_bytes"] > process["mapped_bytes"] > 0 for process in told["processes"] if process["role"] != "etcd"
    )
    assert all(0 < disk["free_bytes"] <= disk["total_bytes"] for disk in told["disks"])
    addresses = {process["name"]: process["addresses"] for process in told["processes"]}
    assert told["bootstrap_servers"] in addresses["gateway-1"]["kafka"]
    assert len(addresses["gateway-1"]["brokers"]) == 3


def test_a_dead_storage_node_leaves_partitions_under_replicated(run: Path) -> None:
    kill(run, "storage-2")
    expected = "degraded: 2 partitions are under-replicated, storage-2 is down, `make up` starts storage-2"
    killed_at = time.time()
    eventually(lambda: sentence(run) == expected)
    done = command(run, "status")
    assert done.returncode == 1
    since = datetime.strptime(done.stdout.splitlines()[1], "degraded since %Y-%m-%d %H:%M:%S")
    assert killed_at - 1 < since.timestamp() < time.time()
    command(run, "up")
    eventually(lambda: sentence(run) == "healthy")


def test_two_dead_storage_nodes_leave_partitions_below_their_min_isr(run: Path) -> None:
    kill(run, "storage-2")
    kill(run, "storage-3")
    eventually(lambda: "2 partitions are below min.insync.replicas" in sentence(run))
    command(run, "up")
    eventually(lambda: sentence(run) == "healthy")


def test_without_storage_nodes_partitions_are_offline_and_the_way_out_is_told(run: Path) -> None:
    for node_id in (1, 2, 3):
        kill(run, f"storage-{node_id}")
    eventually(lambda: sentence(run).startswith("offline: 2 partitions are offline (t-0: storage-"))
    assert "start " in sentence(run)
    command(run, "up")
    eventually(lambda: sentence(run) == "healthy")


def test_a_sole_replica_whose_node_is_down_is_offline_and_its_node_is_named(run: Path) -> None:
    bootstrap = json.loads(command(run, "status", "--json").stdout)["bootstrap_servers"]
    admin = Admin(bootstrap)
    admin.create_all([NewTopic("sole", 1, replica_assignment=[[2]])])
    kill(run, "storage-2")
    words = "1 partition is offline (sole-0: storage-2 of its in-sync replicas is down: start it)"
    eventually(lambda: words in sentence(run))
    command(run, "up")
    eventually(lambda: sentence(run) == "healthy")
    admin.delete("sole")
    admin.close()


@pytest.mark.parametrize("name", ["gateway-1", "group_coordinator-1", "etcd"])
def test_any_other_process_that_is_dead_is_named(run: Path, name: str) -> None:
    kill(run, name)
    eventually(lambda: f"{name} does not run (`make up`)" in sentence(run))
    assert sentence(run).partition(":")[0] in ("degraded", "offline", "unknown" if name == "etcd" else "")
    command(run, "up")
    eventually(lambda: sentence(run) == "healthy")


def test_a_dead_controller_is_told_by_those_that_live(run: Path) -> None:
    kill(run, "controller-1")
    eventually(lambda: "controller-1 does not run" in sentence(run))
    command(run, "up")
    eventually(lambda: sentence(run) == "healthy")


def test_a_process_that_hangs_is_not_ready(run: Path) -> None:
    kill(run, "gateway-1", signal.SIGSTOP)
    try:
        eventually(lambda: "gateway-1 is not ready (no answer (" in sentence(run))
    finally:
        kill(run, "gateway-1", signal.SIGCONT)
    eventually(lambda: sentence(run) == "healthy")


def test_a_cluster_that_was_stopped_says_what_starts_it(run: Path) -> None:
    command(run, "down")
    assert sentence(run) == "stopped: no process runs; `make up` starts them"
    command(run, "up")
    eventually(lambda: sentence(run) == "healthy")
