"""The commands that a newcomer types, on the real services."""

import re
import shutil
import socket
import subprocess
import sys

import pytest
from confluent_kafka.admin import AdminClient

from services.storage.refusals import OTHER_CLUSTER
from tests.support.requirements import ROOT


def test_up_status_down_and_wipe_tell_one_story(penstock, tmp_path):
    bootstrap = f"127.0.0.1:{penstock.port}"
    assert penstock("up", f"--port={penstock.port}", "--storage=2")[-1] == f"bootstrap.servers={bootstrap}"
    socket.create_connection(("127.0.0.1", penstock.port), timeout=60).close()

    said = penstock("status")
    assert said[0] == "healthy"
    assert (
        "partitions: 0 offline, 0 below min.insync.replicas, 0 under-replicated, 0 moving; leaders: storage-1 0, storage-2 0"
        in said
    )
    table = {line.split()[0]: line.split() for line in said}
    assert {name for name, row in table.items() if row[3:4] == ["yes"]} == {
        "etcd",
        "controller-1",
        "storage-1",
        "storage-2",
        "group_coordinator-1",
        "transaction_coordinator-1",
        "quota_manager-1",
        "gateway-1",
    }

    assert "all of it is running" in penstock("up")
    assert any(
        row[0] == "controller-1" and row[4:7] == ["(the", "active", "controller)"] for row in map(str.split, penstock("status"))
    )
    assert table["quota_manager-1"][4:8] == ["(the", "active", "quota", "manager)"]

    refused = penstock("up", f"--port={penstock.port + 1}", succeeds=False)[-1]
    assert "choose another RUN=" in refused
    assert f"runs as PORT={penstock.port} STORAGE=2 GATEWAYS=1 CONTROLLERS=1 COORDINATORS=1 " in refused
    assert " TRANSACTION_COORDINATORS=1 QUOTA_MANAGERS=1, or choose" in refused

    penstock("down")
    said = penstock("status", succeeds=False)
    assert said[0] == "stopped: no process runs; `make up` starts them"
    assert all(line.split()[3] == "down" for line in said[2:10])
    assert "has data on 2 storage nodes" in penstock("up", "--storage=1", succeeds=False)[-1]

    assert penstock("up")[-1] == f"bootstrap.servers={bootstrap}"
    penstock("wipe")
    assert not (tmp_path / "run").exists()
    assert penstock("down") == [f"no cluster in {tmp_path / 'run'}: nothing to stop"]
    assert not (tmp_path / "run").exists()


def test_wipe_and_down_of_what_never_was_a_cluster_say_so_and_touch_nothing(penstock, tmp_path):
    run = tmp_path / "run"
    assert penstock("wipe") == [f"no cluster in {run}: nothing to remove"]
    for path in (run / "data" / "storage-1" / "thesis.txt", run / "logs" / "etcd.log"):
        path.parent.mkdir(parents=True)
        path.write_text("mine", encoding="utf-8")
    assert "made (no cluster.json): nothing is removed" in penstock("wipe", succeeds=False)[-1]
    assert penstock("down") == [f"no cluster in {run}: nothing to stop"]
    assert sorted(path.name for path in run.rglob("*") if path.is_file()) == ["etcd.log", "thesis.txt"]
    shutil.rmtree(run)


def test_a_damaged_shape_stops_neither_down_nor_wipe(penstock, tmp_path):
    penstock("up", f"--port={penstock.port}", "--storage=1")
    (tmp_path / "run" / "cluster.json").write_bytes(b"\xff{")
    assert "is damaged" in penstock("up", succeeds=False)[-1]
    assert "is damaged" in penstock("status", succeeds=False)[-1]
    (said,) = penstock("down")
    assert said.startswith("stopped"), "etcd is not taken for one that hangs"
    penstock("wipe")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("run", ["/proc/penstock", "/dev/null", "/dev/null/run"])
def test_a_run_folder_that_cannot_be_is_refused_in_one_line(run):
    argv = [sys.executable, "-m", "services.local", "up", f"--run={run}"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, encoding="utf-8", check=False, timeout=120)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("penstock: /")


def test_settings_that_nobody_knows_or_that_come_too_late_are_warned_of(penstock, monkeypatch):
    monkeypatch.setenv("PENSTOCK_BROKER_CONFIG", "log.retention.hours=24")
    penstock_up = penstock("up", f"--port={penstock.port}", "--storage=1")
    assert "warning: there is no setting PENSTOCK_BROKER_CONFIG; did you mean PENSTOCK_BROKER_CONFIGS?" in penstock_up
    monkeypatch.delenv("PENSTOCK_BROKER_CONFIG")
    monkeypatch.setenv("PENSTOCK_BROKER_CONFIGS", "log.retention.hours=24")
    (warning,) = [line for line in penstock("up") if line.startswith("warning")]
    assert warning == "warning: PENSTOCK_BROKER_CONFIGS reaches no process, since all of them run already: `make down` first"
    monkeypatch.setenv("PENSTOCK_PORT_BASE", "1234")
    warnings = [line for line in penstock("up") if line.startswith("warning") and "PORT_BASE" in line]
    assert warnings == ["warning: `make up` sets PENSTOCK_PORT_BASE itself and ignores the environment's (docs/settings.md)"]
    monkeypatch.delenv("PENSTOCK_PORT_BASE")
    penstock("down")
    assert not any(line.startswith("warning") for line in penstock("up"))
    assert not any(line.startswith("warning") for line in penstock("up"))


def test_make_refuses_a_variable_that_no_target_takes():
    done = subprocess.run(["make", "status", "STORGE=5"], cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 2
    assert "no target takes STORGE" in done.stderr


def test_make_knows_each_variable_that_a_target_takes():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (known,) = re.findall(r"^KNOWN := (.*)$", makefile, re.MULTILINE)
    used = set(re.findall(r"\$\((?:if |or )?\$?\(?([A-Z_]+)\b", makefile))
    assert used - {"LOCAL", "PIPELINE", "PIPELINE_LONG", "VENV", "KNOWN", "UNKNOWN", "VARIABLES"} == set(known.split())


@pytest.mark.parametrize(
    ("version", "platform", "words"),
    [("(3, 9, 2)", "linux", "Penstock needs 3.11 or later"), ("(3, 12, 1)", "darwin", "Penstock needs Linux")],
)
def test_an_old_python_and_another_system_are_refused_in_one_line(version, platform, words):
    program = f"import sys; sys.version_info, sys.platform = {version}, {platform!r}; import services.local.__main__"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert words in line


def test_make_without_any_python_says_what_is_needed():
    done = subprocess.run(["make", "up", "PYTHON="], cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 2
    assert "Penstock needs Python 3.11 or later" in done.stderr


def test_up_warns_once_of_settings_that_it_overrides(penstock, monkeypatch):
    monkeypatch.setenv("PENSTOCK_PORT_BASE", "7000")
    monkeypatch.setenv("PENSTOCK_NODE_ID", "7")
    with socket.create_server(("127.0.0.1", penstock.port)):
        said = penstock("up", f"--port={penstock.port}", succeeds=False)
    assert [line for line in said if line.startswith("warning")] == [
        "warning: `make up` sets PENSTOCK_NODE_ID, PENSTOCK_PORT_BASE itself and ignores the environment's (docs/settings.md)"
    ]


def test_clients_on_other_machines_reach_the_gateways_and_brokers_at_the_address_that_up_was_given(penstock, monkeypatch):
    monkeypatch.setenv("PENSTOCK_LISTEN_HOST", "0.0.0.0")
    warning = (
        "warning: PENSTOCK_LISTEN_HOST without PENSTOCK_ADVERTISED_HOST: clients on other machines would be sent to 127.0.0.1"
    )
    with socket.create_server(("127.0.0.1", penstock.port)):
        assert warning in penstock("up", f"--port={penstock.port}", "--storage=1", succeeds=False)
    monkeypatch.setenv("PENSTOCK_ADVERTISED_HOST", "localhost")
    said = penstock("up")
    assert said[-1] == f"bootstrap.servers=localhost:{penstock.port}"
    assert warning not in said
    monkeypatch.delenv("PENSTOCK_LISTEN_HOST")
    monkeypatch.delenv("PENSTOCK_ADVERTISED_HOST")
    penstock("down")
    assert penstock("up")[-1] == penstock("status")[-1] == f"bootstrap.servers=localhost:{penstock.port}"
    metadata = AdminClient({"bootstrap.servers": f"127.0.0.1:{penstock.port}"}).list_topics(timeout=30)
    assert [(broker.host, broker.port) for broker in metadata.brokers.values()] == [("localhost", penstock.port + 1)]
    with socket.socket() as probe, pytest.raises(OSError):
        probe.bind(("127.0.0.2", penstock.port))


def test_nothing_is_said_to_be_started_where_a_port_is_taken(penstock):
    with socket.create_server(("127.0.0.1", penstock.port)):
        said = penstock("up", f"--port={penstock.port}", succeeds=False)
    assert "is in use by" in said[-1]
    assert not any("starting" in line for line in said)


def test_a_shape_whose_port_was_taken_is_remembered_and_may_yet_change(penstock):
    taken = penstock.port
    with socket.create_server(("127.0.0.1", taken)):
        penstock("up", f"--port={taken}", "--storage=2", succeeds=False)
        assert f"port {taken}, which gateway-1 needs" in penstock("up", succeeds=False)[-1]
        assert sum(row.startswith("storage-2 ") for row in penstock("status", succeeds=False)) == 1
    assert penstock("up", "--storage=1", "--gateways=1")[-1] == f"bootstrap.servers=127.0.0.1:{taken}"

    second_gateway = taken + 100
    with socket.create_server(("127.0.0.1", second_gateway)):
        assert f"port {second_gateway}, which gateway-2" in penstock("up", "--gateways=2", succeeds=False)[-1]
    assert "all of it is running" in penstock("up", "--gateways=1"), "nothing that runs has to end for that"


def test_wipe_names_the_log_directories_that_it_leaves_and_the_next_cluster_says_whose_they_are(penstock, tmp_path, monkeypatch):
    elsewhere = tmp_path / "disk" / "logs"
    monkeypatch.setenv("PENSTOCK_LOG_DIRS", f"{elsewhere},{tmp_path / 'run' / 'second'}")
    penstock("up", f"--port={penstock.port}", "--storage=1")
    said = penstock("wipe")[-1]
    assert f" {elsewhere} (PENSTOCK_LOG_DIRS)" in said
    assert "second" not in said, "it was removed"
    assert (elsewhere / "meta.properties").exists()

    said = penstock("up", f"--port={penstock.port}", "--storage=1", succeeds=False)
    assert not any("Traceback" in line or "damaged" in line for line in said)
    refusal = next(line for line in said if "belongs to another cluster" in line)
    assert f"path={elsewhere}" in refusal
    assert f'way_out="{OTHER_CLUSTER}"' in refusal
    assert "" not in said

    before = {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")}
    assert "choose another directory by PENSTOCK_LOG_DIRS" in OTHER_CLUSTER
    monkeypatch.setenv("PENSTOCK_LOG_DIRS", str(tmp_path / "disk" / "others"))
    assert penstock("up")[-1] == f"bootstrap.servers=127.0.0.1:{penstock.port}"
    assert {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")} == before


def test_an_option_that_is_no_number_is_refused_as_make_names_it_and_leaves_no_folder(penstock, tmp_path):
    assert penstock("up", "--gateways=two", succeeds=False)[-1] == "penstock: GATEWAYS=two is not a whole number"
    assert not (tmp_path / "run").exists()


def test_status_of_nothing_says_how_to_get_something(penstock):
    assert "`make up` makes one" in penstock("status", succeeds=False)[-1]


def test_make_alone_lists_the_targets():
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True).stdout
    for target in ("up", "down", "wipe", "status", "test", "check", "clients", "bench", "docs"):
        assert f"  make {target} " in said


def test_make_shows_all_that_the_makefile_says_of_a_target():
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True).stdout
    words = re.findall(r"^[a-z]+:.*?## (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(words) > 10
    for line in words:
        assert f" {line}\n" in said


def test_make_takes_a_run_folder_with_blanks_in_its_name(tmp_path):
    said = subprocess.run(
        ["make", "-s", "status", f"RUN={tmp_path / 'my run'}"], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )
    assert said.stdout == f"no cluster in {tmp_path / 'my run'}; `make up` makes one\n", said.stderr
