"""The launcher with stand-ins for the services: the same files, ports and signals, ready within milliseconds."""

import json
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from services.local import probe, processes
from services.local.cluster import Cluster
from services.local.cluster_shape import Shape
from services.local.errors import LauncherError
from services.local.etcd_setup import etcd_binary
from services.local.given_settings import warn_of_settings
from services.local.probe import holder_of
from services.local.recovery import fill_new_etcd
from services.local.run_directory import RunDirectory
from tests.support.polling import eventually
from tests.support.ports import reserve_ports
from tests.support.requirements import ROOT, require

STAND_IN = """
import http.server, os, signal, sys
node = os.environ["PENSTOCK_NODE_ID"]
print("first line of", node, flush=True)
if os.environ.get("DIES"):
    sys.exit("cannot go on")
if os.environ.get("IGNORES_SIGTERM"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503 if os.environ.get("NEVER_READY") else 200)
        self.end_headers()
        self.wfile.write(os.environ.get("NEVER_READY", "").encode())
    def log_message(self, *arguments): pass
http.server.HTTPServer(("127.0.0.1", int(os.environ["PENSTOCK_ADMIN_PORT"])), Answers).serve_forever()
"""


@pytest.fixture
def root(tmp_path) -> Path:
    for role in ("controller", "storage", "group_coordinator", "transaction_coordinator", "quota_manager", "gateway"):
        package = tmp_path / "root" / "services" / role
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(STAND_IN, encoding="utf-8")
    (tmp_path / "root" / "services" / "__init__.py").touch()
    return tmp_path / "root"


@pytest.fixture
def make(root, tmp_path):
    require("etcd")
    reservation = reserve_ports(200)
    made = []

    def make_cluster(storage: int = 1, **settings) -> Cluster:
        shape = Shape(port=reservation.first, storage=storage)
        python = Path(sys.executable)
        made.append(Cluster(shape, RunDirectory(tmp_path / "run"), root=root, python=python, etcd=etcd_binary(ROOT), **settings))
        return made[-1]

    yield make_cluster
    for cluster in made:
        cluster.down()
        assert cluster.running() == {}
    reservation.release()


def test_up_makes_all_ready_and_leaves_pid_files(make):
    cluster = make(storage=2)
    cluster.up()
    assert all(status.ready for status in cluster.status())
    for name, plan in cluster.plans.items():
        pid = int(cluster.run.pid_file(name).read_text(encoding="utf-8"))
        assert processes.has_argument(pid, plan.mark)
    assert json.loads((cluster.run.path / "cluster.json").read_text(encoding="utf-8"))["storage"] == 2


def test_up_again_starts_only_what_is_down(make):
    cluster = make(storage=2)
    cluster.up()
    before = {name: cluster.pid_of(name) for name in cluster.plans}
    cluster.kill("storage-2", signal.SIGKILL)
    assert cluster.names_down() == ["storage-2"]
    cluster.up()
    after = {name: cluster.pid_of(name) for name in cluster.plans}
    assert {name for name in before if before[name] != after[name]} == {"storage-2"}


def test_the_launcher_names_the_settings_that_it_overrides_and_those_that_reach_processes(make):
    cluster = make()
    own = cluster.plans["gateway-1"].environment["PENSTOCK_ETCD"]
    given = {"PENSTOCK_PORT_BASE": "7000", "PENSTOCK_NODE_ID": "7", "PENSTOCK_ETCD": own}
    reaching = {"PENSTOCK_RACK": "a", "MALLOC_ARENA_MAX": "1"}
    assert cluster.overridden(given | reaching) == ["PENSTOCK_NODE_ID", "PENSTOCK_PORT_BASE"]


def test_settings_of_etcd_in_the_shell_do_not_reach_it_and_are_warned_of(make, monkeypatch):
    monkeypatch.setenv("ETCD_UNSAFE_NO_FSYNC", "true")
    monkeypatch.setenv("ETCD_UNSUPPORTED_ARCH", "arm64")
    cluster = make()
    said = []
    warn_of_settings(cluster, ROOT, said.append)
    assert said == ["warning: ETCD_UNSAFE_NO_FSYNC does not reach etcd: `make up` sets all of its settings"]
    cluster.run.create()
    cluster.start("etcd")
    cluster.wait_ready(["etcd"])
    pid = cluster.pid_of("etcd")
    assert pid is not None
    assert [name for name in processes.environment(pid) if name.startswith("ETCD_")] == ["ETCD_UNSUPPORTED_ARCH"]


def test_another_launcher_finds_and_stops_what_the_first_one_started(make):
    make().up()
    second = make()
    others = ["group_coordinator-1", "transaction_coordinator-1", "quota_manager-1"]
    assert sorted(second.running().values()) == sorted(["controller-1", "etcd", "gateway-1", "storage-1", *others])


def test_a_pid_file_that_names_a_foreign_process_is_not_believed(make):
    cluster = make()
    cluster.run.create()
    processes.write_pid(cluster.run.pid_file("storage-1"), os.getpid())
    assert cluster.pid_of("storage-1") is None


def test_a_process_whose_pid_file_is_lost_is_not_started_twice(make):
    cluster = make()
    cluster.up()
    pid = cluster.pid_of("gateway-1")
    cluster.run.pid_file("gateway-1").unlink()
    cluster.up()
    assert cluster.pid_of("gateway-1") == pid


def test_a_process_whose_pid_file_is_lost_is_still_stopped(make):
    cluster = make()
    cluster.up()
    cluster.run.pid_file("gateway-1").unlink()
    cluster.down()
    assert cluster.running() == {}


def test_a_service_that_dies_while_starting_is_shown_with_its_last_words(make):
    cluster = make(environment_of={"storage-1": {"DIES": "1"}})
    with pytest.raises(LauncherError, match=r"(?s)storage-1 ended while starting.*first line of 1\ncannot go on"):
        cluster.up()


def test_all_services_that_die_while_starting_are_named(make):
    dying = {f"storage-{node_id}": {"DIES": "1"} for node_id in (1, 2, 3)}
    cluster = make(storage=3, environment_of=dying)
    cluster.run.create()
    for name in dying:
        cluster.start(name)
    eventually(lambda: all(cluster.pid_of(name) is None for name in dying))
    with pytest.raises(LauncherError) as failure:
        cluster.wait_ready(list(dying))
    sentence = str(failure.value).partition(".")[0]
    assert sentence.count("storage-") == 3
    assert " ended while starting, and so did storage-" in sentence


def test_last_words_of_an_earlier_run_are_not_shown(make):
    make(environment_of={"storage-1": {"DIES": "1"}}).run.create()
    cluster = make(environment_of={"storage-1": {"DIES": "1"}})
    cluster.run.log_file("storage-1").write_text("from an earlier run\n", encoding="utf-8")
    with pytest.raises(LauncherError) as failure:
        cluster.up()
    assert "from an earlier run" not in str(failure.value)


def test_a_service_that_is_never_ready_is_reported_with_its_reason(make):
    cluster = make(environment_of={"storage-1": {"NEVER_READY": "still reading the log"}})
    cluster.run.create()
    cluster.start("storage-1")
    plan = cluster.plans["storage-1"]
    eventually(lambda: probe.ask(plan.probe_port, plan.probe_path, timeout_s=60)[1] == "still reading the log")
    with pytest.raises(LauncherError, match=r"storage-1 is not ready in time \(still reading the log\)"):
        cluster.wait_ready(["storage-1"], within_s=0.5)


def test_one_line_names_all_processes_that_a_start_waits_for_and_why(make, monkeypatch, capsys):
    monkeypatch.setattr("services.local.cluster.TELL_AFTER_S", 0.1)
    never_ready = ["storage-1", "storage-2"]
    cluster = make(storage=2, environment_of={name: {"NEVER_READY": "still reading the log"} for name in never_ready})
    cluster.run.create()
    for name in never_ready:
        cluster.start(name)
        admin = cluster.plans[name].probe_port
        eventually(lambda port=admin: probe.ask(port, "/readyz", timeout_s=60)[1] == "still reading the log")
    with pytest.raises(LauncherError, match=r"is not ready in time"):
        cluster.wait_ready(never_ready, within_s=0.5)
    lines = capsys.readouterr().out.splitlines()
    assert set(lines) == {"still waiting for storage-1, storage-2: still reading the log"}


def test_a_process_that_does_not_listen_yet_is_reported_in_words(make):
    assert probe.ask(make().shape.port, "/readyz", timeout_s=60) == (False, "no answer (Connection refused)")


def test_the_last_words_of_a_failed_start_end_without_blank_lines(make):
    cluster = make(environment_of={"storage-1": {"DIES": "1"}})
    with pytest.raises(LauncherError) as failure:
        cluster.up()
    assert str(failure.value).endswith("cannot go on")


def test_a_process_that_ignores_sigterm_is_killed_and_named(make):
    cluster = make(environment_of={"gateway-1": {"IGNORES_SIGTERM": "1"}}, stop_within_s=0.3)
    cluster.up()
    assert cluster.down() == ["gateway-1"]


def test_stopping_names_the_processes_that_it_waits_for_and_has_one_deadline_for_all(make, monkeypatch, capsys):
    monkeypatch.setattr("services.local.cluster.TELL_AFTER_S", 0.1)
    monkeypatch.setattr("services.local.cluster.STOP_AT_LEAST_S", 0.3)
    stubborn = {"IGNORES_SIGTERM": "1"}
    coordinators = ["group_coordinator-1", "transaction_coordinator-1"]
    services = ["gateway-1", "quota_manager-1", *coordinators, "storage-1", "controller-1"]
    cluster = make(environment_of=dict.fromkeys(services, stubborn), stop_within_s=1.0)
    cluster.up()
    timeouts = []
    end = processes.end

    def recorded(pids, *, timeout_s, **others):
        timeouts.append(timeout_s)
        return end(pids, timeout_s=timeout_s, **others)

    monkeypatch.setattr("services.local.cluster.processes.end", recorded)
    assert cluster.down() == services
    first, *later = timeouts
    assert first <= 1.0
    assert set(later) == {0.3}, "the first one took all of the time"
    assert "still waiting for gateway-1 to stop" in capsys.readouterr().out


def test_a_hung_etcd_is_ended_first_since_the_others_would_wait_for_it(make, monkeypatch, capsys):
    monkeypatch.setattr("services.local.cluster.ANSWERS_WITHIN_S", 0.2)
    cluster = make()
    cluster.up()
    cluster.kill("etcd", signal.SIGSTOP)
    eventually(lambda: not probe.ask(cluster.plans["etcd"].probe_port, "/health", timeout_s=0.2)[0])
    assert cluster.down() == ["etcd"]
    assert "etcd does not answer" in capsys.readouterr().out


def test_a_process_keeps_its_log_directories_and_its_rack(make, monkeypatch):
    monkeypatch.setenv("PENSTOCK_LOG_DIRS", "/one,/two")
    monkeypatch.setenv("PENSTOCK_LOG_LEVEL", "debug")
    make().up()
    monkeypatch.delenv("PENSTOCK_LOG_DIRS")
    monkeypatch.delenv("PENSTOCK_LOG_LEVEL")
    again = make()
    again.down()
    again.up()
    assert given(again, "storage-1")["PENSTOCK_LOG_DIRS"] == "/one,/two"
    assert "PENSTOCK_LOG_LEVEL" not in given(again, "storage-1")
    monkeypatch.setenv("PENSTOCK_LOG_DIRS", "/three")
    again.kill("storage-1", signal.SIGKILL)
    again.up()
    assert given(again, "storage-1")["PENSTOCK_LOG_DIRS"] == "/three"


def test_nothing_starts_without_what_protected_the_cluster(make, monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_AUTHORIZER", "StandardAuthorizer")
    cluster = make()
    cluster.up()
    monkeypatch.delenv("PENSTOCK_AUTHORIZER")
    cluster.kill("gateway-1", signal.SIGKILL)
    (tmp_path / "run" / "places.json").unlink()
    with pytest.raises(LauncherError, match=r"was protected by PENSTOCK_AUTHORIZER, .*places\.json.* is lost"):
        cluster.up()
    assert cluster.pid_of("gateway-1") is None
    monkeypatch.setenv("PENSTOCK_AUTHORIZER", "StandardAuthorizer")
    cluster.up()
    assert given(cluster, "gateway-1")["PENSTOCK_AUTHORIZER"] == "StandardAuthorizer"


def given(cluster: Cluster, name: str) -> dict[str, str]:
    """The environment that a running process was started with."""
    variables = Path(f"/proc/{cluster.pid_of(name)}/environ").read_text(encoding="utf-8").split("\0")
    return dict(variable.split("=", 1) for variable in variables if variable)


def test_a_port_in_use_is_reported_with_its_holder_before_anything_starts(make):
    cluster = make()
    with socket.create_server(("127.0.0.1", cluster.shape.port)):
        with pytest.raises(
            LauncherError, match=rf"port {cluster.shape.port}, which gateway-1 needs, is in use by process {os.getpid()}"
        ):
            cluster.up()
        assert cluster.running() == {}


def test_a_cluster_keeps_off_the_ports_that_another_one_may_yet_take(make, tmp_path):
    first = make()
    first.up()
    shape = Shape(port=first.shape.port + 99)
    second = Cluster(shape, RunDirectory(tmp_path / "other"), root=ROOT, python=Path(sys.executable), etcd=etcd_binary(ROOT))
    with pytest.raises(LauncherError, match=rf"the cluster in {first.run.path} has the ports {first.shape.port} to "):
        second.up()
    assert second.running() == {}


def test_a_shape_whose_ports_were_in_use_is_remembered(make):
    cluster = make(storage=2)
    with socket.create_server(("127.0.0.1", cluster.shape.port)), pytest.raises(LauncherError, match="is in use by"):
        cluster.up()
    assert cluster.run.read_shape() == cluster.shape


def test_nobody_is_named_for_a_port_that_nobody_holds(make):
    assert holder_of(make().shape.port) == "another process"


def test_up_goes_on_beside_a_node_whose_disk_is_full_and_tells_what_it_says(make):
    said = "log directory full, appends are refused: /full"
    cluster = make(storage=2, environment_of={"storage-2": {"NEVER_READY": said}})
    assert cluster.up() == {"storage-2": said}
    assert cluster.up() == {"storage-2": said}


def test_down_keeps_the_data_and_removes_pid_files(make):
    cluster = make()
    cluster.up()
    cluster.down()
    assert list(cluster.run.pids.iterdir()) == []
    assert (cluster.run.data_directory("etcd") / "member").exists()


def test_of_stores_that_could_not_be_filled_the_last_is_kept_and_asides_of_one_second_have_names_of_their_own(make, monkeypatch):
    cluster = make()
    monkeypatch.setattr("time.strftime", lambda form: "20260101-000000")

    def fail() -> str:
        raise LauncherError("no")

    def fill() -> str:
        return "filled"

    for _ in range(2):
        fill_new_etcd(cluster, fill, lambda line: None)
    for _ in range(2):
        with pytest.raises(LauncherError, match="no"):
            fill_new_etcd(cluster, fail, lambda line: None)
    fill_new_etcd(cluster, fill, lambda line: None)
    names = sorted(path.name for path in cluster.run.data.iterdir())
    before = "etcd-before-20260101-000000"
    assert names[:3] == ["etcd", before, f"{before}-2"]
    assert [name.endswith("-failed") for name in names[3:]] == [True]
