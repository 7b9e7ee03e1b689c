"""Installs the group `fuzz` of pyproject.toml into the environment of the tests, unless it is there."""

import importlib.metadata
import subprocess
import sys
import tomllib

from tests.support.requirements import ROOT


def main() -> int:
    with (ROOT / "pyproject.toml").open("rb") as file:
        wanted = tomllib.load(file)["project"]["optional-dependencies"]["fuzz"]
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split())
    if all(_version_of(name) == pinned[name] for name in wanted):
        return 0
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    return subprocess.run([*pip, *(f"{name}=={pinned[name]}" for name in wanted)], stdin=subprocess.DEVNULL).returncode


def _version_of(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
