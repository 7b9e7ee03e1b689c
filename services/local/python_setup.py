"""Makes .venv and installs what is pinned in constraints.txt, unless exactly that was done before."""

import hashlib
import json
import subprocess
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from services.local import interpreters
from services.local.errors import LauncherError

RUNTIME = "gateway,storage,controller,group-coordinator,transaction-coordinator,quota-manager"
"""Extras of pyproject.toml, as its metadata names them."""
DEVELOPMENT = "dev"  # includes the above
LOG_TAIL_LINES = 25
OFFLINE = (
    "The packages of constraints.txt could not be downloaded. Is this machine online? pip takes another registry from "
    "PIP_INDEX_URL, and wheels that are here already from PIP_FIND_LINKS=DIR with PIP_NO_INDEX=1."
)
HINTS = {
    "ensurepip": "On Debian, `apt-get install python3-venv` may be missing.",
    "Failed to establish a new connection": OFFLINE,
    "Temporary failure in name resolution": OFFLINE,
    "No matching distribution found": OFFLINE,
}
"""What to do, by what stands in the output of a command that failed."""


def venv_python(root: Path) -> Path:
    return root / ".venv" / "bin" / "python"


def set_up_python(root: Path, *, development: bool, say: Callable[[str], None]) -> Path:
    """Returns the Python to run services with. `development` adds what tests and checks need."""
    extras = DEVELOPMENT if development else RUNTIME
    fingerprint = fingerprint_of(root, venv_python(root))
    stamps = [root / ".venv" / f"{name}.stamp" for name in ("development", "runtime")]
    covering = stamps[:1] if development else stamps
    if any(is_stamped(stamp, fingerprint) for stamp in covering) and venv_python(root).exists():
        return venv_python(root)
    log = root / ".venv" / "setup.log"
    if not venv_python(root).exists():
        python = interpreters.choose(say)
        say(f"python: making .venv with {python}")
        run_logged([python, "-m", "venv", str(root / ".venv")], root, None, ignore)
    say(f"python: installing penstock[{extras}] with the versions of constraints.txt")
    pip = [str(venv_python(root)), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
    run_logged([*pip, "-c", "constraints.txt", "-e", f".[{extras}]"], root, log, lambda line: tell_progress(line, say))
    # Otherwise the first start would compile everything once per process, all at the same time.
    run_logged([str(venv_python(root)), "-m", "compileall", "-q", "libs", "services"], root, None, ignore)
    for stamp in covering if development else stamps[1:]:
        stamp.write_text(fingerprint_of(root, venv_python(root)), encoding="utf-8")
    return venv_python(root)


def fingerprint_of(root: Path, python: Path) -> str:
    """Changes when an installation for `python`, of a virtual environment, would: settings of linters, in the same file, do not
    count. Nor does the interpreter that runs this: the next shell may have another one on its PATH."""
    pyproject = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    facts = [pyproject["project"], pyproject["build-system"], pyproject["tool"]["setuptools"], _interpreter_of(python), str(root)]
    constraints = (root / "constraints.txt").read_text(encoding="utf-8")
    return hashlib.sha256((json.dumps(facts, sort_keys=True) + constraints).encode()).hexdigest()


def _interpreter_of(python: Path) -> tuple[str, int] | None:
    """The interpreter's own file, and when it was written: an upgrade of the system exchanges it."""
    try:
        file = python.resolve(strict=True)
        return str(file), file.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def is_stamped(stamp: Path, fingerprint: str) -> bool:
    try:
        return stamp.read_text(encoding="utf-8") == fingerprint
    except FileNotFoundError:
        return False


def ignore(line: str) -> None:
    pass


def tell_progress(line: str, say: Callable[[str], None]) -> None:
    if "does not provide the extra" in line:  # pip goes on without it, and ends well
        raise LauncherError(f"pip: {line}")
    if line.startswith(("Collecting ", "Installing collected", "Building ")):
        say("python: " + line.partition(" (from")[0].partition(":")[0])


def run_logged(argv: Sequence[str], root: Path, log: Path | None, on_line: Callable[[str], None]) -> None:
    """Runs to the end, a line at a time; shows the last lines if it fails."""
    lines = []
    with subprocess.Popen(
        argv,
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",  # pip speaks as the locale does
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            on_line(line.strip())
    if log is not None:
        log.write_text("".join(lines), encoding="utf-8")
    if process.returncode != 0:
        output = "".join(lines)
        hints = [f"\n{hint}" for sign, hint in HINTS.items() if sign in output]
        raise LauncherError(f"{' '.join(argv[:4])} failed:\n{''.join(lines[-LOG_TAIL_LINES:])}{''.join(hints[:1])}")
