"""RUN and log directories that are written another way: through symbolic links and with `..`."""

import fcntl
import os
import shutil

import pytest

from services.local import __main__ as local
from services.local import recovery
from services.local.cluster_shape import Shape
from services.local.run_directory import LOG_DIRS, RunDirectory
from tests.support.launcher import run_launcher
from tests.support.requirements import ROOT


def a_cluster(run: RunDirectory) -> None:
    run.create()
    run.write_shape(Shape(storage=1))
    run.data_directory("storage-1").mkdir()


def test_each_way_to_write_run_is_the_same_cluster(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    paths = {RunDirectory(path).path for path in (tmp_path / "link", tmp_path / "run" / ".." / "run", tmp_path / "run")}
    assert paths == {tmp_path / "run"}


def test_a_cluster_is_stopped_and_wiped_by_a_symbolic_link_to_its_run(penstock, tmp_path):
    penstock("up", f"--port={penstock.port}", "--storage=1")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "run")
    assert run_launcher(link, "status").startswith("healthy")
    assert "stopped" in run_launcher(link, "wipe")
    assert penstock("up", f"--port={penstock.port}", "--storage=1")[-1].startswith("bootstrap.servers"), "the ports are free"


def test_a_run_with_data_that_others_use_is_not_wiped_nor_said_to_be_stopped(tmp_path, capsys):
    run = RunDirectory(tmp_path / "run")
    a_cluster(run)
    data = run.data_directory("storage-1")
    with open(data / ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert local.main(["wipe", f"--run={run.path}"]) == 1
        assert f"{data}: in use by a process that this launcher does not know, so nothing is removed" in capsys.readouterr().err
        assert local.main(["down", f"--run={run.path}"]) == 1
        assert "so it runs on" in capsys.readouterr().err
    assert data.exists()
    assert local.main(["wipe", f"--run={run.path}"]) == 0
    assert not run.path.exists()


@pytest.mark.parametrize("written", ["{run}/../disk", "{link}", "{relative}", "{run}"])
def test_log_directories_outside_of_run_are_left_however_they_are_written(tmp_path, written):
    run, disk = RunDirectory(tmp_path / "run"), tmp_path / "disk"
    a_cluster(run)
    disk.mkdir()
    (disk / "of-the-user").touch()
    (run.path / "of-the-user").touch()
    link = run.path / "link"
    link.symlink_to(disk)
    relative = os.path.relpath(run.path / ".." / "disk", ROOT)
    run.place_of("storage-1", {LOG_DIRS: written.format(run=run.path, link=link, relative=relative)})
    run.remove(ROOT)
    assert (disk / "of-the-user").exists()
    assert (run.path / "of-the-user").exists()


@pytest.mark.parametrize("made_by_the_example", [True, False])
def test_the_lake_of_the_example_goes_with_the_topics_that_it_was_made_of(tmp_path, made_by_the_example):
    run = RunDirectory(tmp_path / "run")
    a_cluster(run)
    (run.path / "pipeline" / "lake" / "_checkpoints").mkdir(parents=True)
    (run.path / "pipeline" / ("packages.toml" if made_by_the_example else "mine.toml")).touch()
    left = run.remove(ROOT)
    assert left == ([] if made_by_the_example else [run.path / "pipeline"])
    assert run.path.exists() == (not made_by_the_example)


def test_a_copy_beside_the_data_of_a_storage_node_is_nobodys(tmp_path):
    run = RunDirectory(tmp_path / "run")
    a_cluster(run)
    for name in ("storage-1.bak", "storage-", "storage-02", "storage-x"):
        run.data_directory(name).mkdir()
    assert run.storage_nodes_with_data() == 1
    assert recovery.storage_nodes(run) == [str(run.data_directory("storage-1"))]


def test_processes_whose_sockets_were_removed_are_not_ready_and_the_way_out_is_told(penstock, tmp_path):
    penstock("up", f"--port={penstock.port}", "--storage=1")
    sockets = RunDirectory(tmp_path / "run").sockets
    shutil.rmtree(sockets)
    said = penstock("status", succeeds=False)[0]
    assert said.startswith("degraded: ")
    for name in ("controller-1", "storage-1", "group_coordinator-1", "transaction_coordinator-1", "quota_manager-1", "gateway-1"):
        assert f"{name} is not ready (its socket in {sockets} is gone: start it anew (`make down`, then `make up`))" in said
    assert "will not be ready by itself: its socket in " in "\n".join(penstock("up", succeeds=False))
    penstock("down")
    penstock("up")
    assert penstock("status")[0] == "healthy"
