"""The commands that a newcomer types, on the real services."""

import re
import socket
import subprocess

from tests.support.requirements import ROOT


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
    assert any(
        row[0] == "controller-1" and row[4:7] == ["(the", "active", "controller)"] for row in map(str.split, penstock("status"))
    )

    refused = penstock("up", f"--port={penstock.port + 1}", succeeds=False)[-1]
    assert "choose another RUN=" in refused
    assert f"runs as PORT={penstock.port} STORAGE=2 GATEWAYS=1 CONTROLLERS=1 COORDINATORS=1" in refused

    penstock("down")
    assert all(line.split()[3] == "down" for line in penstock("status")[1:7])
    assert "has data on 2 storage nodes" in penstock("up", "--storage=1", succeeds=False)[-1]

    assert penstock("up")[-1] == f"bootstrap.servers={bootstrap}"
    penstock("wipe")
    assert not (tmp_path / "run").exists()
    assert penstock("down") == [f"no cluster in {tmp_path / 'run'}: nothing to stop"]
    assert not (tmp_path / "run").exists()


def test_up_warns_once_of_settings_that_it_overrides(penstock, monkeypatch):
    monkeypatch.setenv("PENSTOCK_ADVERTISED_HOST", "kafka.example.net")
    monkeypatch.setenv("PENSTOCK_LISTEN_HOST", "0.0.0.0")
    with socket.create_server(("127.0.0.1", penstock.port)):
        said = penstock("up", f"--port={penstock.port}", succeeds=False)
    assert [line for line in said if line.startswith("warning")] == [
        "warning: `make up` sets PENSTOCK_ADVERTISED_HOST, PENSTOCK_LISTEN_HOST itself and ignores the environment's "
        "(docs/settings.md)"
    ]


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
        assert [row.split()[0] for row in penstock("status")[1:-2]].count("storage-2") == 1
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
    assert "PENSTOCK_LOG_DIRS" in refusal
    assert "" not in said


def test_an_option_that_is_no_number_is_refused_as_make_names_it_and_leaves_no_folder(penstock, tmp_path):
    assert penstock("up", "--gateways=two", succeeds=False)[-1] == "penstock: GATEWAYS=two is not a whole number"
    assert not (tmp_path / "run").exists()


def test_status_of_nothing_says_how_to_get_something(penstock):
    assert "`make up` makes one" in penstock("status")[-1]


def test_make_alone_lists_the_targets():
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("up", "down", "wipe", "status", "test", "check", "clients", "bench", "docs"):
        assert f"  make {target} " in said


def test_make_shows_all_that_the_makefile_says_of_a_target():
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    words = re.findall(r"^[a-z]+:.*?## (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(words) > 10
    for line in words:
        assert f" {line}\n" in said


def test_make_takes_a_run_folder_with_blanks_in_its_name(tmp_path):
    said = subprocess.run(
        ["make", "-s", "status", f"RUN={tmp_path / 'my run'}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert said.stdout == f"no cluster in {tmp_path / 'my run'}; `make up` makes one\n", said.stderr
