"""Services that are forked from one process are like those that are started one by one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services.local import processes, warm_processes
from services.local.cluster_plan import ProcessPlan
from services.local.warm_parent import WarmParent
from services.local.warm_processes import Prepared
from tests.support.polling import eventually
from tests.support.requirements import ROOT

STAND_IN = """
import json, os, signal, sys
if __name__ == "__main__":
    seen = {"orig_argv": sys.orig_argv, "argv": sys.argv[1:], "environment": dict(os.environ), "input": sys.stdin.read()}
    print(json.dumps(seen), flush=True)
    if os.environ.get("PENSTOCK_STARTS_ANEW"):
        os.environ["PENSTOCK_STARTS_ANEW"] = ""
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    if os.environ.get("PENSTOCK_WRONG"):
        sys.exit("a setting is wrong")
    signal.pause()
"""
SHARED = {"PATH": os.environ["PATH"], "MALLOC_ARENA_MAX": "2"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for role in ("controller", "storage"):
        package = tmp_path / "root" / "services" / role
        package.mkdir(parents=True)
        (package / "__main__.py").write_text(STAND_IN, encoding="utf-8")
    (tmp_path / "root" / "services" / "local").symlink_to(ROOT / "services" / "local")
    (tmp_path / "root" / "services" / "__init__.py").touch()
    return tmp_path / "root"


@pytest.fixture
def start(root: Path) -> Iterator[Callable[..., dict[str, int]]]:
    """Starts services, and ends at last what it has started."""
    pids: list[int] = []

    def run(*wanted: Prepared) -> dict[str, int]:
        started = warm_processes.start(wanted, directory=root)
        pids.extend(started.values())
        return started

    yield run
    processes.end(pids, timeout_s=0)


def prepared(root: Path, name: str, **environment: str) -> Prepared:
    role = name.partition("-")[0]
    mark = f"-Xpenstock={name}@{root}"
    argv = (sys.executable, mark, "-m", f"services.{role}")
    plan = ProcessPlan(name, role, argv, mark, (), 0, "", {})
    return Prepared(plan, {**SHARED, "PENSTOCK_NAME": name, **environment}, root.parent / f"{name}.log")


def said(service: Prepared) -> list[dict[str, object]]:
    return [json.loads(line) for line in service.log.read_text(encoding="utf-8").splitlines()] if service.log.exists() else []


def test_each_has_arguments_environment_session_and_log_of_its_own(root: Path, start: Callable[..., dict[str, int]]) -> None:
    services = [prepared(root, "controller-1", PENSTOCK_LONG="x" * 3000), *(prepared(root, f"storage-{n}") for n in (1, 2, 3))]
    pids = start(*services)
    assert pids.keys() == {"controller-1", "storage-1", "storage-2", "storage-3"}
    for service in services:
        pid = pids[service.plan.name]
        assert processes.command_line(pid) == list(service.plan.argv)
        assert processes.environment(pid) == service.environment
        assert processes.working_directory(pid) == root
        assert os.getsid(pid) == pid
        assert eventually(lambda service=service: said(service)) == [
            {"orig_argv": list(service.plan.argv), "argv": [], "environment": dict(service.environment), "input": ""}
        ]
        assert {os.readlink(f"/proc/{pid}/fd/{descriptor}") for descriptor in (1, 2)} == {str(service.log)}
        assert not [file for file in Path(f"/proc/{pid}/fd").iterdir() if os.readlink(file).startswith("pipe:")]


def test_one_that_is_executed_again_has_the_same_arguments_and_process_id(
    root: Path, start: Callable[..., dict[str, int]]
) -> None:
    services = [prepared(root, "storage-1", PENSTOCK_STARTS_ANEW="yes"), prepared(root, "storage-2")]
    pid = start(*services)["storage-1"]
    assert eventually(lambda: said(services[0])[1:])[0]["orig_argv"] == list(services[0].plan.argv)
    assert processes.command_line(pid) == list(services[0].plan.argv)


def test_one_that_ends_says_why_in_its_log_and_the_others_run(root: Path, start: Callable[..., dict[str, int]]) -> None:
    services = [prepared(root, "storage-1", PENSTOCK_WRONG="yes"), prepared(root, "storage-2")]
    pids = start(*services)
    eventually(lambda: services[0].log.exists() and services[0].log.read_text(encoding="utf-8").endswith("a setting is wrong\n"))
    eventually(lambda: not processes.command_line(pids["storage-1"]))
    assert processes.command_line(pids["storage-2"]) == list(services[1].plan.argv)


def test_only_services_with_the_same_other_variables_come_from_one_process(
    root: Path, start: Callable[..., dict[str, int]]
) -> None:
    other = prepared(root, "storage-3", PYTHONPATH="/elsewhere")
    assert start(prepared(root, "storage-1"), prepared(root, "storage-2"), other).keys() == {"storage-1", "storage-2"}
    assert start(prepared(root, "storage-1"), other) == {}


def test_a_service_that_cannot_be_imported_is_left_to_be_started_in_the_usual_way(
    root: Path, start: Callable[..., dict[str, int]]
) -> None:
    (root / "services" / "storage" / "__main__.py").write_text("import no_such_module", encoding="utf-8")
    wanted = [prepared(root, name) for name in ("controller-1", "controller-2", "storage-1")]
    assert start(*wanted).keys() == {"controller-1", "controller-2"}


def test_an_environment_may_be_larger_than_the_kernel_takes_in_one_variable(
    root: Path, start: Callable[..., dict[str, int]]
) -> None:
    large = {f"PENSTOCK_LONG_{number}": "x" * 60_000 for number in range(5)}
    services = [prepared(root, name, **large) for name in ("storage-1", "storage-2")]
    pids = start(*services)
    assert pids.keys() == {"storage-1", "storage-2"}
    assert processes.environment(pids["storage-1"]) == services[0].environment


def test_services_whose_environment_has_no_room_twice_are_left_to_be_started_in_the_usual_way(
    root: Path, start: Callable[..., dict[str, int]]
) -> None:
    large = {f"LONG_{number}": "x" * 120_000 for number in range(12)}
    assert start(*(prepared(root, name, **large) for name in ("storage-1", "storage-2"))) == {}


def test_code_that_changes_while_it_is_imported_is_not_run(root: Path, start: Callable[..., dict[str, int]]) -> None:
    changes = "import pathlib; pathlib.Path(__file__).with_name('changed.py').touch()\n"
    (root / "services" / "storage" / "__main__.py").write_text(changes + STAND_IN, encoding="utf-8")
    assert start(prepared(root, "storage-1"), prepared(root, "storage-2")) == {}


def test_an_upgrade_forks_services_one_after_the_other_from_one_process(root: Path) -> None:
    services = [prepared(root, "controller-1"), prepared(root, "storage-1")]
    pids: dict[str, int] = {}
    try:
        with WarmParent(root, Path(sys.executable), ("controller", "storage")) as parent:
            parent.expect(services[0])
            importing = parent.pid
            for service in services:
                pids |= parent.start([service], directory=root)
            assert parent.pid == importing is not None
        assert [processes.command_line(pids[each.plan.name]) for each in services] == [list(each.plan.argv) for each in services]
        assert [processes.environment(pids[each.plan.name]) for each in services] == [each.environment for each in services]
    finally:
        processes.end(list(pids.values()), timeout_s=0)


def test_code_that_changes_during_an_upgrade_is_left_to_be_started_in_the_usual_way(root: Path) -> None:
    with WarmParent(root, Path(sys.executable), ("storage",)) as parent:
        parent.expect(prepared(root, "storage-1"))
        (root / "services" / "storage" / "changed.py").touch()
        assert parent.start([prepared(root, "storage-1")], directory=root) == {}


USUAL_WAY = "did not answer in 0.1 s: it is ended, and services are started in the usual way"


def test_a_process_that_does_not_answer_is_ended_and_services_are_started_in_the_usual_way(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service = prepared(root, "storage-1", PENSTOCK_LONG="x" * 100_000)  # more than a pipe holds
    untold = subprocess.Popen([sys.executable, service.plan.mark, "-c", "import signal; signal.pause()"])
    try:
        with WarmParent(root, Path(sys.executable), ("storage",)) as parent:
            parent.expect(service)
            assert parent.pid is not None
            os.kill(parent.pid, signal.SIGSTOP)
            monkeypatch.setattr("services.local.warm_parent.FORKED_WITHIN_S", 0.1)
            assert parent.start([service], directory=root) == {}
            assert capsys.readouterr().out.count(USUAL_WAY) == 1
            assert not processes.command_line(parent.pid)
            assert untold.wait(10) < 0  # as one that was forked and never named
            assert parent.start([service], directory=root) == {}
            assert capsys.readouterr().out == ""
    finally:
        untold.kill()
        untold.wait()


def test_a_process_that_does_not_import_in_time_is_ended(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "services" / "storage" / "__main__.py").write_text("import signal; signal.pause()", encoding="utf-8")
    monkeypatch.setattr("services.local.warm_parent.FORKED_WITHIN_S", 0.1)
    with WarmParent(root, Path(sys.executable), ("storage",)) as parent:
        parent.expect(prepared(root, "storage-1"))
        assert USUAL_WAY in capsys.readouterr().out
        assert parent.start([prepared(root, "storage-1")], directory=root) == {}


def test_make_up_starts_all_services_from_one_process_and_one_by_hand_as_before(penstock, tmp_path: Path) -> None:
    penstock("up", "--port", str(penstock.port))
    pids = {file.stem: int(file.read_text(encoding="utf-8")) for file in (tmp_path / "run" / "pids").iterdir()}
    forked = {name for name, pid in pids.items() if Path(f"/proc/{pid}/cmdline").read_bytes().endswith(b"\0\0")}
    assert forked == pids.keys() - {"etcd"}  # NULs are left where the arguments were replaced
    os.kill(pids["gateway-1"], signal.SIGKILL)
    assert any(line.startswith("starting gateway-1 (logs in") for line in penstock("up"))
    assert any(line.startswith("healthy") for line in penstock("status"))


def test_a_process_without_room_for_the_arguments_says_so() -> None:
    program = "import sys; from services.local.own_title import replace; print(replace([sys.argv[1] * 2], {}))"
    run = subprocess.run([sys.executable, "-c", program, "x" * 5000], cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    assert run.stdout == "False\n"
