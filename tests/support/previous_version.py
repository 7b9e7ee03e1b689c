"""The version from which upgrades are tested: the source of the commit that `tests/upgrade/previous` names.

That is the last release, or an earlier commit on main that somebody may still run. Whoever makes a release writes the commit of
the release before it into the file.
"""

import fcntl
import subprocess
import tempfile
from pathlib import Path

from services.local.python_setup import venv_python
from tests.support.requirements import ROOT

FILE = ROOT / "tests" / "upgrade" / "previous"
SOURCES = ROOT / ".tools" / "previous"
GIT_WITHIN_S, SETUP_WITHIN_S = 60.0, 600.0


def previous_commit() -> str:
    return FILE.read_text(encoding="utf-8").strip()


def why_not() -> str | None:
    """Why the source cannot be had. None: it can."""
    commit = previous_commit()
    if (SOURCES / commit).is_dir():
        return None
    try:
        _git("cat-file", "-e", f"{commit}^{{commit}}")
    except FileNotFoundError:
        return "no git on PATH"
    except subprocess.CalledProcessError:
        return f"commit {commit} of {FILE.relative_to(ROOT)} is not in this clone"
    return None


def previous_source() -> Path:
    """A folder with the source of that commit, which is made once."""
    commit = previous_commit()
    SOURCES.mkdir(parents=True, exist_ok=True)
    target = SOURCES / commit
    with open(SOURCES / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=SOURCES) as scratch:
                archive = Path(scratch, "source.tar")
                _git("archive", "--output", str(archive), commit)
                unpacked = Path(scratch, "source")
                unpacked.mkdir()
                subprocess.run(["tar", "-xf", str(archive), "-C", str(unpacked)], check=True, timeout=GIT_WITHIN_S)
                unpacked.rename(target)
    return target


def previous_python(source: Path) -> Path:
    """A Python with the packages of that version: ours, if all of its versions are ours still, else one of its own."""
    if _constraints(source) <= _constraints(ROOT):
        return venv_python(ROOT)
    own = [str(venv_python(ROOT)), "-m", "services.local", "setup"]
    subprocess.run(own, cwd=source, check=True, capture_output=True, timeout=SETUP_WITHIN_S)
    return venv_python(source)


def _constraints(root: Path) -> set[str]:
    return set((root / "constraints.txt").read_text(encoding="utf-8").split())


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, timeout=GIT_WITHIN_S)
