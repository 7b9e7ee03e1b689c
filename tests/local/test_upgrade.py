"""`make upgrade` on stand-ins for the services: which processes run other code, their order, and what stops it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from services.local import processes
from services.local.cluster import Cluster
from services.local.cluster_shape import NODE_ROLES, SECURED, SERVICE_ROLES, Shape
from services.local.errors import LauncherError
from services.local.etcd_setup import etcd_binary
from services.local.run_directory import RunDirectory
from services.local.running_code import changed_at
from services.local.upgrade import names_running_other_code, upgrade
from tests.local.health_stand_ins import make_checkout, say_not_ready, tell
from tests.support.polling import eventually
from tests.support.ports import reserve_ports
from tests.support.requirements import ROOT, require

IN_ORDER = [
    "controller-2",
    "controller-1",  # which the stand-ins call the active one
    "storage-1",
    "storage-2",
    "group_coordinator-1",
    "transaction_coordinator-1",
    "quota_manager-1",
    "gateway-1",
]


@contextmanager
def running_cluster(directory: Path, roles: str = SERVICE_ROLES) -> Iterator[Cluster]:
    require("etcd")
    reservation = reserve_ports(100)
    shape = Shape(reservation.first, storage=2, controllers=2, roles=roles)
    root = make_checkout(directory / "root")
    run = RunDirectory(directory / "run")
    running = Cluster(shape, run, root=root, python=Path(sys.executable), etcd=etcd_binary(ROOT))
    try:
        with pytest.MonkeyPatch.context() as given:
            given.setenv("PENSTOCK_BROKER_CONFIGS", "log.retention.hours=24")
            running.up()
        yield running
    finally:
        running.down()
        reservation.release()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path) as running:
        yield running


@dataclass(frozen=True)
class Upgraded:
    """A cluster after an upgrade, its processes before that, and what the upgrade said."""

    cluster: Cluster
    before: dict[str, int | None]
    said: list[str]


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    with running_cluster(tmp_path_factory.mktemp("upgraded")) as running:
        before, said = pids(running), list[str]()
        (running.root / "services" / "new.py").touch()
        assert names_running_other_code(running) == IN_ORDER
        upgrade(running, said.append)
        yield Upgraded(running, before, said)


def pids(cluster: Cluster) -> dict[str, int | None]:
    return {name: cluster.pid_of(name) for name in cluster.plans}


def restarted(cluster: Cluster, before: dict[str, int | None]) -> set[str]:
    return {name for name, pid in pids(cluster).items() if pid != before[name]}


def test_a_rollback_names_a_process_whose_role_this_version_lacks_and_down_ends_it(cluster: Cluster) -> None:
    argv = [sys.executable, "-S", f"-Xpenstock=lake_keeper-1@{cluster.run.path}", "-c", "import signal; signal.pause()"]
    said: list[str] = []
    with subprocess.Popen(argv) as later:
        eventually(lambda: later.pid in cluster.running())
        upgrade(cluster, said.append)
        cluster.down()
        assert later.wait() == -signal.SIGTERM
    assert said[0].startswith(f"lake_keeper-1 has a role that this version lacks. It runs on: `kill {later.pid}` ends it")


def test_what_was_started_from_the_code_as_it_is_stays_as_it_is(cluster: Cluster) -> None:
    before, said = pids(cluster), list[str]()
    (cluster.root / "services" / "__pycache__").mkdir(exist_ok=True)
    (cluster.root / "services" / "__pycache__" / "new.pyc").touch()
    assert names_running_other_code(cluster) == []
    upgrade(cluster, said.append)
    assert said == ["all processes run this code already"]
    assert restarted(cluster, before) == set()


def test_after_a_change_of_the_code_each_process_but_etcd_is_restarted_in_order(upgraded: Upgraded) -> None:
    assert [line.split()[0] for line in upgraded.said if " restarted " in line] == IN_ORDER
    assert restarted(upgraded.cluster, upgraded.before) == set(IN_ORDER)
    assert names_running_other_code(upgraded.cluster) == []


def test_an_upgrade_names_the_restarts_that_clients_will_notice(upgraded: Upgraded) -> None:
    assert [line for line in upgraded.said if "the only" in line] == [
        "group_coordinator-1 is the only group coordinator: its clients wait while it restarts",
        "transaction_coordinator-1 is the only transaction coordinator: its clients wait while it restarts",
        "gateway-1 is the only gateway: its clients wait while it restarts",
    ]


def test_nodes_are_restarted_in_the_place_of_storage_nodes(tmp_path: Path) -> None:
    with running_cluster(tmp_path, NODE_ROLES) as running:
        before, said = pids(running), list[str]()
        (running.root / "services" / "new.py").touch()
        upgrade(running, said.append)
        in_order = [*IN_ORDER[:2], "node-1", "node-2", *IN_ORDER[4:7]]
        assert [line.split()[0] for line in said if " restarted " in line] == in_order
        assert restarted(running, before) == set(in_order)


def test_an_upgrade_starts_the_quota_manager_that_the_former_version_lacks(cluster: Cluster) -> None:
    said: list[str] = []
    cluster.kill("quota_manager-1")
    (cluster.root / "services" / "new.py").touch()
    upgrade(cluster, said.append)
    done = [line.split()[:2] for line in said if line.endswith(f"of {len(IN_ORDER)})")]
    assert done == [[name, "started" if name == "quota_manager-1" else "restarted"] for name in IN_ORDER]
    assert cluster.pid_of("quota_manager-1") is not None
    cluster.kill("quota_manager-1")
    upgrade(cluster, said.append)
    assert said[-1].startswith("quota_manager-1 started and the cluster healthy again in ")
    upgrade(cluster, said.append)
    assert said[-1] == "all processes run this code already"


def test_a_restarted_process_keeps_the_settings_that_it_was_started_with(upgraded: Upgraded) -> None:
    pid = upgraded.cluster.pid_of("storage-1")
    assert pid is not None
    assert processes.environment(pid)["PENSTOCK_BROKER_CONFIGS"] == "log.retention.hours=24"


def test_processes_of_another_checkout_run_other_code_however_old_this_one_is(cluster: Cluster, tmp_path: Path) -> None:
    assert names_running_other_code(cluster) == []
    cluster.root = make_checkout(tmp_path / "other")
    assert names_running_other_code(cluster) == IN_ORDER
    cluster.restart("storage-2", stop_within_s=10.0)
    assert names_running_other_code(cluster) == [name for name in IN_ORDER if name != "storage-2"]


def test_log_directories_relative_to_another_checkout_are_refused_before_anything_is_restarted(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = cluster.root
    with monkeypatch.context() as given:
        given.setenv("PENSTOCK_LOG_DIRS", "disks/1, /absolute/2")
        cluster.restart("storage-2", stop_within_s=10.0)
        cluster.wait_ready(["storage-2"])
    before = pids(cluster)
    cluster.root = make_checkout(tmp_path / "other")
    with pytest.raises(LauncherError, match="PENSTOCK_LOG_DIRS of storage-2 names disks/1, which is relative to") as refusal:
        upgrade(cluster, lambda line: None)
    assert str(former) in str(refusal.value)
    assert restarted(cluster, before) == set()


def test_an_upgrade_waits_for_a_cluster_that_is_degraded_for_a_moment(cluster: Cluster) -> None:
    said: list[str] = []
    (cluster.root / "services" / "new.py").touch()
    tell(cluster.root, "degraded: 3 partitions are under-replicated")

    def recover(line: str) -> None:
        said.append(line)
        if "the upgrade waits" in line:
            tell(cluster.root, "healthy")

    upgrade(cluster, recover)
    assert said[0] == "the cluster is degraded: 3 partitions are under-replicated: the upgrade waits up to 15 s for it"
    assert [line.split()[0] for line in said if " restarted " in line] == IN_ORDER


def test_an_upgrade_of_a_cluster_that_is_not_healthy_restarts_nothing_and_says_why(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.local.upgrade.SETTLES_WITHIN_S", 0.1)
    before = pids(cluster)
    (cluster.root / "services" / "new.py").touch()
    tell(cluster.root, "degraded: 3 partitions are under-replicated")
    with pytest.raises(LauncherError, match="It is degraded: 3 partitions are under-replicated") as refusal:
        upgrade(cluster, lambda line: None)
    assert "nothing was restarted" in str(refusal.value)
    assert "`make upgrade FORCE=1` restarts all the same" in str(refusal.value)
    assert restarted(cluster, before) == set()


def test_an_upgrade_ends_at_the_step_after_which_the_cluster_is_not_healthy(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pids(cluster)
    monkeypatch.setattr("services.local.upgrade.HEALTHY_WITHIN_S", 0.0)
    (cluster.root / "services" / "new.py").touch()

    def worsen(line: str) -> None:
        if line.startswith("controller-2 restarted"):
            tell(cluster.root, "degraded: 1 partition is under-replicated")

    with pytest.raises(LauncherError, match="controller-1 runs this code, and the cluster is degraded"):
        upgrade(cluster, worsen)
    assert restarted(cluster, before) == {"controller-2", "controller-1"}


def test_an_upgrade_goes_on_beside_a_full_disk_and_begins_with_its_node(cluster: Cluster) -> None:
    said: list[str] = []
    (cluster.root / "services" / "new.py").touch()
    say_not_ready(cluster.root, "storage-2", "log directory full, appends are refused: /full")
    tell(
        cluster.root,
        "degraded: 2 partitions are under-replicated, /full of storage-2 is full",
        only_full=True,
        under_replicated=2,
    )
    upgrade(cluster, said.append)
    order = [line.split()[0] for line in said if " restarted " in line]
    assert order[2:4] == ["storage-2", "storage-1"]
    assert sorted(order) == sorted(IN_ORDER)
    assert any("/full of storage-2 is full" in line and "The upgrade goes on" in line for line in said)


def test_an_upgrade_by_force_takes_a_cluster_that_is_no_worse_than_before(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("services.local.upgrade.HEALTHY_WITHIN_S", 0.0)
    (cluster.root / "services" / "new.py").touch()
    tell(cluster.root, "degraded: 3 partitions are under-replicated", under_replicated=3)

    def worsen(line: str) -> None:
        said.append(line)
        if line.startswith("storage-1 restarted"):
            tell(cluster.root, "degraded: 4 partitions are under-replicated", under_replicated=4)

    with pytest.raises(LauncherError, match="storage-2 runs this code, and the cluster is degraded: 4 partitions"):
        upgrade(cluster, worsen, force=True)
    assert [line.split()[0] for line in said if " restarted " in line] == IN_ORDER[:3]


def test_a_process_that_is_gone_cannot_be_restarted(cluster: Cluster) -> None:
    cluster.kill("gateway-1")
    with pytest.raises(LauncherError, match="gateway-1 is not running"):
        cluster.restart("gateway-1", stop_within_s=1.0)


def test_a_checkout_without_code_has_never_changed(tmp_path: Path) -> None:
    assert changed_at(tmp_path) == 0.0


def test_upgrade_without_a_cluster_says_how_to_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from services.local.__main__ import main

    assert main(["upgrade", "--run", str(tmp_path / "none")]) == 1
    assert (
        capsys.readouterr().err == f"penstock: no cluster in {tmp_path / 'none'}; `make up RUN={tmp_path / 'none'}` makes one\n"
    )


@pytest.mark.parametrize(("ends_well", "runs_on"), [(True, {}), (False, {}), (True, {8: "archivist-1"})])
def test_permissions_at_etcd_are_added_before_the_first_restart_and_taken_away_only_after_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_well: bool, runs_on: dict[int, str]
) -> None:
    """`runs_on`: processes of a role that this version lacks, which an upgrade leaves alone."""
    from services.local import __main__ as launcher

    run = RunDirectory(tmp_path)
    run.create()
    run.write_shape(Shape(security=SECURED))
    done: list[str] = []

    def restart_all(*arguments: object, **options: object) -> None:
        done.append("restarts")
        if not ends_well:
            raise LauncherError("the cluster is degraded")

    found = {7: "etcd", **runs_on}
    running = SimpleNamespace(etcd_tls=True, plans={"etcd": None}, running=lambda: found, pid_of=lambda name: 7)
    monkeypatch.setattr(launcher, "set_up", lambda **options: None)
    monkeypatch.setattr(launcher, "cluster_of", lambda run, shape: running)
    monkeypatch.setattr(launcher.security_files, "renew", lambda *arguments, **options: done.append("certificates"))
    monkeypatch.setattr(launcher, "set_up_users", lambda *arguments, revoke=False, **options: done.append(f"revoke {revoke}"))
    monkeypatch.setattr(launcher, "upgrade", restart_all)
    with nullcontext() if ends_well else pytest.raises(LauncherError):
        launcher.upgrade_cluster(run, force=False)
    assert done == ["certificates", "revoke False", "restarts", *(["revoke True"] if ends_well and not runs_on else [])]


def test_upgrade_of_a_stopped_cluster_says_that_nothing_runs(cluster: Cluster) -> None:
    cluster.down()
    said: list[str] = []
    with pytest.raises(LauncherError, match=r"no process of the cluster in .* runs: `make up` starts it with this code"):
        upgrade(cluster, said.append)
    assert said == []
