import os
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from services.local import python_setup
from services.local.errors import LauncherError
from services.local.python_setup import set_up_python, venv_python

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = """
[build-system]
requires = ["setuptools"]
[project]
name = "penstock"
dependencies = ["aiohttp"]
[tool.setuptools]
packages = []
[tool.ruff]
line-length = 130
"""

SetUp = Callable[[bool], list[str]]


@pytest.fixture
def set_up(tmp_path, monkeypatch) -> SetUp:
    """Sets up a project in tmp_path and returns what it asked pip for: commands are noted down instead of run."""
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (tmp_path / "constraints.txt").write_text("aiohttp==3.0\n", encoding="utf-8")
    commands: list[list[str]] = []

    def note(argv, root, log, on_line) -> None:
        commands.append(list(argv))
        venv_python(tmp_path).parent.mkdir(parents=True, exist_ok=True)
        venv_python(tmp_path).touch()

    monkeypatch.setattr(python_setup, "run_logged", note)

    def run(development: bool) -> list[str]:
        commands.clear()
        set_up_python(tmp_path, development=development, say=lambda line: None)
        return [command[-1] for command in commands if "install" in command]

    return run


def test_running_needs_no_more_than_the_services_do(set_up):
    assert set_up(False) == [".[gateway,storage,controller,group-coordinator,transaction-coordinator,quota-manager]"]


def test_extras_are_spelt_as_metadata_does():
    """Setuptools writes a hyphen for an underscore, and an older pip finds only what it spells so."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = pyproject["project"]["optional-dependencies"]
    assert set(python_setup.RUNTIME.split(",")) <= extras.keys()
    assert [extra for extra in extras if re.sub("[-_.]+", "-", extra).lower() != extra] == []


def test_an_extra_that_pip_passes_over_fails_the_set_up(tmp_path, monkeypatch):
    def warn(argv, root, log, on_line) -> None:
        on_line("WARNING: penstock 0.1.0 does not provide the extra 'gateway'")

    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (tmp_path / "constraints.txt").write_text("", encoding="utf-8")
    monkeypatch.setattr(python_setup, "run_logged", warn)
    with pytest.raises(LauncherError, match="does not provide the extra 'gateway'"):
        set_up_python(tmp_path, development=False, say=lambda line: None)
    assert not list(tmp_path.glob(".venv/*.stamp"))


def test_a_second_set_up_installs_nothing(set_up):
    set_up(False)
    assert set_up(False) == []


def test_another_interpreter_on_the_path_installs_nothing(set_up, monkeypatch):
    """A cron job, or a shell with pyenv, installed anew below a cluster that ran, before it started what was down."""
    set_up(False)
    monkeypatch.setattr(sys, "version", "3.12.1 (another)")
    assert set_up(False) == []


def test_an_upgrade_of_the_interpreter_installs_anew(set_up, tmp_path):
    set_up(False)
    os.utime(venv_python(tmp_path), ns=(1, 1))
    assert set_up(False) == [".[gateway,storage,controller,group-coordinator,transaction-coordinator,quota-manager]"]


def test_tests_need_more_than_running_does(set_up):
    set_up(False)
    assert set_up(True) == [".[dev]"]


def test_the_tests_requirements_are_enough_to_run(set_up):
    set_up(True)
    assert set_up(False) == []


def test_another_version_in_constraints_is_installed(set_up, tmp_path):
    set_up(False)
    (tmp_path / "constraints.txt").write_text("aiohttp==3.1\n", encoding="utf-8")
    assert set_up(False) == [".[gateway,storage,controller,group-coordinator,transaction-coordinator,quota-manager]"]


def test_a_new_dependency_is_installed(set_up, tmp_path):
    set_up(True)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT.replace('"aiohttp"', '"aiohttp", "msgpack"'), encoding="utf-8")
    assert set_up(True) == [".[dev]"]


def test_a_setting_of_the_linter_installs_nothing(set_up, tmp_path):
    set_up(False)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT.replace("130", "120"), encoding="utf-8")
    assert set_up(False) == []


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("[Errno -3] Temporary failure in name resolution", "Is this machine online?"),
        ("ERROR: No matching distribution found for aiohttp==3.0", "Is this machine online?"),
        ("ensurepip is not available", "python3-venv"),
    ],
)
def test_a_command_that_fails_says_what_may_help(tmp_path, words, hint):
    with pytest.raises(LauncherError) as failure:
        python_setup.run_logged(
            [sys.executable, "-c", f"import sys; print({words!r}); sys.exit(1)"], tmp_path, None, lambda line: None
        )
    assert words in str(failure.value)
    assert hint in str(failure.value).splitlines()[-1]
