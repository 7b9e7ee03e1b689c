"""Which processes run other code than a checkout holds now: they work in another one, or started before its files changed."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from services.local import processes

CODE = ("libs", "services")
"""The folders of what processes run. Python reads a file when it is first imported."""
DEPENDENCIES = ("constraints.txt", "pyproject.toml")


def changed_at(root: Path) -> float:
    """The wall time when a file of the code was written last. By the inode's change: copies and archives keep the times of
    contents."""
    return max(map(_written_at, _files(root)), default=0.0)


def runs_other_code(pid: int, root: Path, changed: float) -> bool:
    """Whether that process runs other code than `root`, whose files changed last at `changed`. False for one that is gone."""
    directory, age_s = processes.working_directory(pid), processes.age_s(pid)
    if directory is None or age_s is None:
        return False
    return directory != root.resolve() or time.time() - age_s < changed


def _files(root: Path) -> Iterator[Path]:
    for folder in CODE:
        for directory, inner, names in os.walk(root / folder):
            inner[:] = [name for name in inner if name != "__pycache__"]
            yield from (Path(directory, name) for name in names)
    yield from (root / name for name in DEPENDENCIES)


def _written_at(path: Path) -> float:
    try:
        return path.stat().st_ctime
    except FileNotFoundError:
        return 0.0
