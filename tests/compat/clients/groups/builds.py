"""Sets up the programs that this environment cannot run: once for each content of their sources, in .tools/clients/."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.requirements import ROOT, require

PROGRAMS = Path(__file__).parent / "programs"
BUILT = ROOT / ".tools" / "clients"
SET_UP_S = 280.0
GO_QUICKLY = "-gcflags=github.com/...=-N -l"
"""What Go need not optimise: clients that tests run for a moment. Its own packages come from the cache, as they are."""


def node_modules() -> Path:
    """The directory with kafkajs, exactly as its lock file says."""
    require("node")
    source, lock = PROGRAMS / "kafkajs", ("package.json", "package-lock.json")

    def install(directory: Path) -> None:
        for name in lock:
            shutil.copy(source / name, directory)
        _run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"], directory)

    return _once("kafkajs", [source / name for name in lock], install) / "node_modules"


def franz_go_member() -> Path:
    """The binary; the first build of a machine takes half a minute."""
    return go_program(PROGRAMS / "franz_go")


def go_program(source: Path) -> Path:
    """The binary of a Go module, built as etcd is: all of Go's own packages come from the cache then."""
    require("go")

    def build(directory: Path) -> None:
        command = [
            "go",
            "build",
            "-mod=readonly",
            "-buildvcs=false",
            "-trimpath",
            GO_QUICKLY,
            "-ldflags=-s -w",
            "-o",
            str(directory / "program"),
            ".",
        ]
        _run(command, source)

    return _once(f"go-{source.name}", sorted(source.iterdir()), build) / "program"


def instrumented_python() -> Path:
    """The Python of an environment with OpenTelemetry's instrumentation of confluent-kafka, whose versions contradict ours."""
    requirements = PROGRAMS / "instrumented_python" / "requirements.txt"

    def install(directory: Path) -> None:
        _run([sys.executable, "-m", "venv", "--without-pip", str(directory)], directory)  # a pip of its own takes seconds
        into = ["--python", str(directory / "bin" / "python")]
        _run([sys.executable, "-m", "pip", *into, "install", "--quiet", "--requirement", str(requirements)], directory)

    return _once("instrumented-python", [requirements], install) / "bin" / "python"


def _once(name: str, sources: list[Path], make: Callable[[Path], None]) -> Path:
    """Test processes that start together share one run; a folder is there when it is whole."""
    fingerprint = hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in sources)).hexdigest()[:16]
    BUILT.mkdir(parents=True, exist_ok=True)
    made = BUILT / f"{name}-{fingerprint}"
    with open(BUILT / f"{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            for old in BUILT.glob(f"{name}-*"):
                shutil.rmtree(old)
            making = BUILT / f"{name}.making"
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            make(making)
            making.rename(made)
    return made


def _run(command: list[str], directory: Path) -> None:
    environment = {**os.environ, "GOFLAGS": "", "CGO_ENABLED": "0"}
    done = subprocess.run(
        command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=SET_UP_S
    )
    assert done.returncode == 0, f"{' '.join(command)}: {(done.stdout + done.stderr)[-3000:]}"
