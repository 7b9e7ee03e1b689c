"""Unit files as systemd reads them, as far as ours go: sections, repeated keys, environment files, state directories."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Unit:
    """`settings` has the values of each key of a section, in the order of the file."""

    settings: dict[tuple[str, str], list[str]]
    environment: dict[str, str]

    def values(self, section: str, key: str) -> list[str]:
        return self.settings.get((section, key), [])

    @property
    def argv(self) -> Sequence[str]:
        return shlex.split(self.values("Service", "ExecStart")[-1])


def read_unit(path: Path, *, root: Path) -> Unit:
    """`root`: where the host's `/` is, from which environment files are read."""
    settings: dict[tuple[str, str], list[str]] = {}
    section = ""
    for line in _lines(path):
        if line.startswith("["):
            section = line.strip("[]")
            continue
        key, equals, value = line.partition("=")
        assert equals, f"{path}: {line!r} is no setting"
        settings.setdefault((section, key), []).append(value)
    environment: dict[str, str] = {}
    for assignments in settings.get(("Service", "Environment"), []):
        environment |= dict(word.split("=", 1) for word in shlex.split(assignments))
    for file in settings.get(("Service", "EnvironmentFile"), []):  # these win, wherever they stand (systemd.exec(5))
        environment |= dict(line.split("=", 1) for line in _lines(root / file.lstrip("/")))
    return Unit(settings, environment)


def _lines(path: Path) -> list[str]:
    """Without comments and empty lines."""
    return [line for line in map(str.strip, path.read_text(encoding="utf-8").splitlines()) if line and line[0] not in "#;"]
