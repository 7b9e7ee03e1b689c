"""Services of tests' clusters that are forked from one process are like those that are started one by one."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.local import processes
from services.local.cluster_plan import ProcessPlan
from services.local.python_setup import venv_python
from services.local.warm_parent import WarmParent
from services.local.warm_processes import Prepared
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.support.requirements import ROOT
from tests.support.warm_parent import warm_parent

REFUSED = {"PENSTOCK_NODE_ID": "none"}
"""A setting with which a service ends at once, and says so."""


def prepared(tmp_path: Path, **environment: str) -> Prepared:
    argv = (str(venv_python(ROOT)), f"-Xpenstock=storage-1@{tmp_path}", "-m", "services.storage")
    plan = ProcessPlan("storage-1", "storage", argv, argv[1], (), 0, "", {})
    return Prepared(plan, {**os.environ, **REFUSED, **environment}, tmp_path / "storage-1.log")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


def test_all_services_of_a_cluster_have_one_parent_also_when_they_are_started_again() -> None:
    with LocalCluster(storage=2) as cluster:
        cluster.restart("storage-1", signal.SIGKILL)
        pids = {name: cluster.pid(name) for name in cluster.names if name != "etcd"}
        assert len({parent_of(pid) for pid in pids.values()}) == 1
        for name, pid in pids.items():
            assert f"-Xpenstock={name}@{cluster.run.path}" in processes.command_line(pid)
            assert processes.environment(pid)["PENSTOCK_NODE_ID"] == name.rpartition("-")[2]
            assert os.getsid(pid) == pid
        cluster.kill("storage-2")
        eventually(lambda: not Path(f"/proc/{pids['storage-2']}").exists())  # no zombie stays


@pytest.fixture
def warm() -> Iterator[WarmParent]:
    with warm_parent() as parent:
        yield parent


def test_what_a_service_says_is_in_its_log_and_the_next_one_is_started(warm: WarmParent, tmp_path: Path) -> None:
    service = prepared(tmp_path)
    pid = warm.start([service], directory=ROOT)["storage-1"]
    eventually(lambda: not processes.command_line(pid))
    assert "PENSTOCK_NODE_ID" in service.log.read_text(encoding="utf-8")
    assert warm.start([service], directory=ROOT)["storage-1"] != pid


@pytest.mark.parametrize("variables", [{"PYTHONPATH": "/elsewhere"}, {"LD_PRELOAD": "/elsewhere.so"}])
def test_a_service_with_other_variables_is_left_to_be_started_in_the_usual_way(
    warm: WarmParent, tmp_path: Path, variables: dict[str, str]
) -> None:
    assert warm.start([prepared(tmp_path)], directory=ROOT)
    assert warm.start([prepared(tmp_path, **variables)], directory=ROOT) == {}
    assert warm.start([prepared(tmp_path, PYTEST_CURRENT_TEST="another")], directory=ROOT)


def test_another_checkout_runs_its_own_code(warm: WarmParent, tmp_path: Path) -> None:
    assert warm.start([prepared(tmp_path)], directory=tmp_path) == {}


def test_a_parent_that_has_ended_starts_nothing_more(warm: WarmParent, tmp_path: Path) -> None:
    service = prepared(tmp_path)
    assert warm.start([service], directory=ROOT)
    assert warm.pid is not None
    os.kill(warm.pid, signal.SIGKILL)
    assert warm.start([service], directory=ROOT) == {}
