"""The slowest tests of a run are named with their CPU and with what they waited for, also by workers."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.polling import eventually
from tests.support.requirements import ROOT
from tests.support.selection import GROUPS, LONG, in_turn, is_left_out
from tests.support.shortcut_halves import file_has_shortcuts
from tests.support.slowest_tests import Cost, Watch

WAITS = """
import time

import pytest


@pytest.fixture
def slow():
    time.sleep(0.4)


def test_that_waits(slow):
    time.sleep(0.4)


def test_that_works():
    end = time.process_time() + 0.6
    while time.process_time() < end:
        pass


def test_that_is_quick():
    pass
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_the_end_of_a_run_names_its_slowest_tests(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n", encoding="utf-8")
    (tmp_path / "test_waits.py").write_text(WAITS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", *workers, "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "COLUMNS": "300"}, capture_output=True, encoding="utf-8")
    told = [line for line in done.stdout.splitlines() if "::test_that" in line and " s, CPU " in line]
    waits, works = sorted(told, key=lambda line: "works" in line)
    assert re.search(r"CPU 0\.[0-3] \+ 0\.0 s: .*::test_that_waits; set-up 0\.[4-9] s", waits), waits
    assert re.search(r"CPU 0\.[6-9] \+ 0\.0 s: .*::test_that_works", works), works
    assert "2 tests of 0.5 s or more" in done.stdout


def test_the_place_of_a_test_is_the_condition_that_it_waits_for_and_not_the_poll() -> None:
    watch, rounds = Watch(), iter(range(30))
    try:
        watch.begin("this one")
        eventually(lambda: next(rounds) == 29)
        cost = watch.end()
    finally:
        watch.close()
    place, share = next(iter(cost.places.items()))
    assert place.startswith("tests/harness/test_slowest_tests.py:")
    assert share == 1.0
    assert 0.02 * 29 <= cost.seconds < cost.own_cpu_s + 60


def test_a_line_tells_where_most_of_the_time_went() -> None:
    cost = Cost("tests/a.py::test_b", 40.0, 30.0, 1.0, 2.5, {"tests/c.py:3 up": 0.72, "tests/a.py:9 test_b": 0.1})
    assert cost.line() == "   40.0 s, CPU 1.0 + 2.5 s: tests/a.py::test_b; set-up 30.0 s; 72% tests/c.py:3 up"


@pytest.mark.parametrize(
    ("option", "path", "left_out"),
    [
        ("--quick", "tests/wire/test_frames.py", False),
        ("--rest", "tests/wire/test_frames.py", True),
        ("--rest", "tests/system/faults/test_disks.py", False),
        ("--quick", "tests/deploy/hosts/test_make_up.py", True),
        ("--deploy", "tests/deploy/hosts/test_make_up.py", False),
        ("--rest", "tests/wire/conftest.py", False),
    ],
)
def test_files_that_the_options_leave_out_are_not_imported(option: str, path: str, left_out: bool) -> None:
    assert is_left_out(path, [option]) == left_out


def test_long_files_begin_first_and_each_file_stays_together() -> None:
    names = ["tests/a.py::one", "tests/b.py::one", "tests/b.py::two", f"{LONG[1]}::one", f"{LONG[0]}::one", "tests/b.py::three"]
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    order = [f"{LONG[0]}::one", f"{LONG[1]}::one", "tests/b.py::one", "tests/b.py::two", "tests/b.py::three", "tests/a.py::one"]
    assert [item.nodeid for item in in_turn(items)] == order


def test_files_that_share_a_fixture_follow_one_another_by_halves() -> None:
    compat = [f"tests/compat/{number}.py" for number in range(9)]
    on, off = [path for path in compat if file_has_shortcuts(path)], [path for path in compat if not file_has_shortcuts(path)]
    shared = [f"{path}::one" for pair in zip(on, off, strict=False) for path in pair]
    items: list[Any] = [SimpleNamespace(nodeid=name, fixturenames=["shared_clusters"]) for name in shared]
    items += [
        SimpleNamespace(nodeid=f"{on[0]}::two", fixturenames=[]),
        SimpleNamespace(nodeid="tests/a.py::one", fixturenames=[]),
    ]
    files = [item.nodeid.partition("::")[0] for item in in_turn(items)]
    assert files[0] == "tests/a.py"
    halves = [file_has_shortcuts(path) for path in files[1:]]
    assert halves == sorted(halves)


def test_the_long_files_exist() -> None:
    assert [path for path in LONG if not (ROOT / path).is_file()] == []


def test_one_worker_runs_all_tests_of_containers() -> None:
    """Each worker would start a Docker daemon, and two of them undo each other's rules and remove each other's containers."""
    folder = ROOT / "tests" / "deploy" / "compose"
    files = {f"{path.relative_to(ROOT)}" for path in folder.glob("test_*.py") if "docker" in path.read_text(encoding="utf-8")}
    assert files <= set(GROUPS["one Docker daemon runs all containers"])
    assert len(files) >= 2
