"""`make test` that is interrupted leaves no process behind, also none that is a session of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.polling import eventually
from tests.support.requirements import ROOT

TESTS = """
import os, pathlib, subprocess, sys, time

def test_it_starts_a_process_of_a_session_of_its_own_and_hangs():
    subprocess.run([sys.executable, "-c", '''
import os, subprocess, pathlib
started = subprocess.Popen(["sleep", "600"], start_new_session=True)
pathlib.Path("pid.tmp").write_text(str(started.pid), encoding="utf-8")
os.rename("pid.tmp", "pid")
'''], check=True)
    if "ENDS" not in os.environ:
        time.sleep(600)
"""


def started(folder: Path, *arguments: str, tests: str = TESTS, **environment: str) -> "subprocess.Popen[bytes]":
    (folder / "test_it.py").write_text(tests, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    given = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    argv = [sys.executable, "-m", "tests.support.contained_run", "-q", "-p", "no:cacheprovider", *arguments, "test_it.py"]
    return subprocess.Popen(argv, cwd=folder, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_nothing_behind(number: signal.Signals, workers: str, tmp_path: Path) -> None:
    with started(tmp_path, "-n", workers) as run:
        eventually((tmp_path / "pid").exists)
        pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
        assert not is_gone(pid)
        run.send_signal(number)
        run.send_signal(number)
        output, _ = run.communicate(timeout=60)
    assert run.returncode == 128 + number, output
    eventually(lambda: is_gone(pid))


FIXTURE = """
import os, pathlib, time
import pytest

@pytest.fixture
def mounted():
    yield
    pathlib.Path("ended").touch()

def test_it_hangs(mounted):
    pathlib.Path("pid").write_text(str(os.getpid()), encoding="utf-8")
    time.sleep(600)
"""


def test_a_signal_that_comes_twice_at_once_lets_fixtures_end(tmp_path: Path) -> None:
    with started(tmp_path, "-n", "0", tests=FIXTURE) as run:
        eventually((tmp_path / "pid").exists)
        run.send_signal(signal.SIGTERM)
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=60)
    assert (tmp_path / "ended").exists()


def test_a_run_that_ends_by_itself_has_pytests_exit_code_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with started(tmp_path, ENDS="1") as run:
        output, _ = run.communicate(timeout=60)
    assert run.returncode == 0, output
    assert is_gone(int((tmp_path / "pid").read_text(encoding="utf-8")))


ORPHAN = """
import os, signal, subprocess, sys

STARTS = "import os; print(os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '600'), flush=True); os.read(0, 1)"

def test_a_killed_group_is_gone():
    leader = subprocess.Popen([sys.executable, "-c", STARTS], start_new_session=True, stdin=-1, stdout=-1)
    leader.stdout.readline()
    os.killpg(leader.pid, signal.SIGKILL)
    leader.communicate()
    while True:
        try:
            os.killpg(leader.pid, 0)
        except ProcessLookupError:
            return
"""


def test_orphans_that_end_are_gone_for_tests_that_wait_for_it(tmp_path: Path) -> None:
    """The run inherits them. While nobody has waited for a process that has ended, its group exists."""
    with started(tmp_path, "-n", "0", tests=ORPHAN) as run:
        try:
            output, _ = run.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGTERM)
            raise
    assert run.returncode == 0, output
