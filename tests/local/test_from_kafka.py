"""`make from-kafka` on directories that look like a stopped Kafka's. With a real Kafka: `tests/deploy/migration/`."""

import os
import shutil
import signal
import socket
import subprocess
import sys

from services.local import processes
from tests.controller.kafka_metadata import log_directory
from tests.support.launcher import run_unheard
from tests.support.polling import eventually
from tests.support.requirements import ROOT

ASIDE = "__cluster_metadata-0.00000000000000000000000000000001-stray"


def test_a_dry_run_makes_nothing(penstock, tmp_path):
    said = penstock("from-kafka", "--dry-run", str(log_directory(tmp_path / "kafka")))
    assert "topics: 1, partitions: 1; no record is copied or changed" in said[-2]
    assert "its server.properties was not given" in said[-1]
    assert (tmp_path / "kafka" / "__cluster_metadata-0").exists()
    assert not (tmp_path / "run").exists()


def test_directories_that_a_wipe_would_remove_are_refused(penstock, tmp_path):
    said = penstock("from-kafka", str(log_directory(tmp_path / "run" / "kafka")), succeeds=False)
    assert "would remove it: choose another RUN=" in said[-1]
    shutil.rmtree(tmp_path / "run")


def test_brokers_whose_ids_have_a_gap_are_refused(penstock, tmp_path):
    said = penstock("from-kafka", str(log_directory(tmp_path / "kafka", node_id=4)), succeeds=False)
    assert "these are brokers 4: under `make`, storage nodes have the ids from 1 on" in said[-1]


def test_a_failure_leaves_kafkas_directories_and_other_files_of_run(penstock, tmp_path):
    (tmp_path / "run").mkdir()
    other = tmp_path / "run" / "of-somebody-else"
    other.touch()
    data = log_directory(tmp_path / "kafka")
    with socket.create_server(("127.0.0.1", penstock.port + 50)):
        said = penstock("from-kafka", f"--port={penstock.port}", str(data), succeeds=False)
    assert f"port {penstock.port + 50}, which etcd needs, is in use" in said[-1]
    assert other.exists()
    assert (data / "__cluster_metadata-0").exists()
    assert not (tmp_path / "run" / "cluster.json").exists()
    shutil.rmtree(tmp_path / "run")


def test_a_take_over_whose_output_nobody_reads_is_not_undone(penstock, tmp_path):
    data = log_directory(tmp_path / "kafka")
    run_unheard(tmp_path / "run", "from-kafka", f"--port={penstock.port}", str(data))
    assert (data / ASIDE).exists()
    assert (tmp_path / "run" / "cluster.json").exists()
    assert any((tmp_path / "run" / "data" / "etcd").iterdir())


def test_a_take_over_that_was_interrupted_in_its_last_step_goes_on(penstock, tmp_path):
    first, second = log_directory(tmp_path / "first"), log_directory(tmp_path / "second", node_id=2, values=[])
    take_over = ("from-kafka", f"--port={penstock.port}", str(first), str(second))
    penstock(*take_over)
    (first / ASIDE).rename(first / "__cluster_metadata-0")
    said = penstock(*take_over)
    assert said[0].endswith("had taken over already")
    assert f"Kafka's own metadata are now {first / ASIDE}" in said[1]
    assert (first / ASIDE).exists()
    assert "holds a cluster already" in penstock(*take_over, succeeds=False)[-1]


def test_a_take_over_that_was_killed_before_etcd_was_filled_begins_anew(penstock, tmp_path):
    data = log_directory(tmp_path / "kafka")
    run = tmp_path / "run"
    take_over = ("from-kafka", f"--port={penstock.port}", str(data))
    launcher = subprocess.Popen(
        [sys.executable, "-m", "services.local", take_over[0], f"--run={run}", *take_over[1:]], cwd=ROOT, start_new_session=True
    )
    eventually((run / "data" / "etcd").exists, 60)
    os.killpg(launcher.pid, signal.SIGKILL)  # etcd lives in a session of its own
    launcher.wait()
    for pid, _ in processes.find_by_argument(lambda argument: argument == f"--data-dir={run / 'data' / 'etcd'}"):
        os.kill(pid, signal.SIGKILL)
    assert (data / "__cluster_metadata-0").exists()

    for command in ("up", "status", "upgrade", "backup"):
        said = penstock(command, *(["saved"] if command == "backup" else []), succeeds=False)
        assert "has the rest of a `make from-kafka" in said[-1], command
    assert "would take over" in penstock(take_over[0], "--dry-run", str(data))[0]
    assert "took over cluster" in penstock(*take_over)[0]
    assert (data / ASIDE).exists()
    assert not list((run / "data").glob("etcd-before-*"))
    assert "stopped" in penstock("status", succeeds=False)[0]


def test_the_rest_of_a_take_over_that_was_killed_can_be_wiped(penstock, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "taking-over").touch()
    assert "stopped, and removed" in penstock("wipe")[0]
    assert not run.exists()
