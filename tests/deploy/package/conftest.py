"""The wheel in a fresh virtual environment outside of the repository, as a user installs it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

STEP_S_MAX = 300.0
NO_COMPILE = {"PIP_NO_COMPILE": "1"}
"""Most of what pip would compile, nobody imports. A process compiles what it does import."""
NAMES_OF_THIS_SHELL = ("PYTHONPATH", "VIRTUAL_ENV", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER")


class Installation:
    """A virtual environment with Penstock's wheel. Its commands run in `project`, a folder of the user's."""

    def __init__(self, folder: Path, wheel: Path, constraints: Path) -> None:
        self._wheel, self._constraints = wheel, constraints
        self.bin = folder / "venv" / "bin"
        self.project = folder / "project"
        self.project.mkdir()
        self.environment = {name: value for name, value in os.environ.items() if name not in NAMES_OF_THIS_SHELL} | NO_COMPILE
        self.ran([sys.executable, "-m", "venv", str(folder / "venv")])

    def install(self, extra: str = "", *others: str) -> str:
        """What pip says."""
        penstock = f"penstock[{extra}] @ {self._wheel.as_uri()}" if extra else str(self._wheel)
        pip = [str(self.bin / "pip"), "install", "--disable-pip-version-check", "-c", str(self._constraints)]
        return self.ran([*pip, penstock, *others]).stdout

    def run(self, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            arguments,
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=STEP_S_MAX,
        )

    def ran(self, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        ended = self.run(arguments)
        assert ended.returncode == 0, f"{arguments}\n{ended.stdout}\n{ended.stderr}"
        return ended


@pytest.fixture(scope="session")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what is in the repository's folders, so that no earlier build is in it."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    copied = ["libs", "services", "pyproject.toml", "README.md", "LICENSE"]
    subprocess.run(["cp", "-r", *copied, str(source)], cwd=root, check=True)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "-w", str(built), str(source)]
    environment = {**os.environ, **NO_COMPILE}
    ended = subprocess.run(
        pip, env=environment, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=STEP_S_MAX
    )
    assert ended.returncode == 0, ended.stderr
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def installation(wheel: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Without any extra, and with what the sample project needs."""
    installed = Installation(tmp_path_factory.mktemp("user"), wheel, root / "constraints.txt")
    installed.install("", "confluent-kafka", "pytest", "pytest-xdist")
    return installed
