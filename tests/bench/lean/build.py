"""Compiles the load generator by `cc`, once for each state of its source: `python -m tests.bench.lean.build` prints its path."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from libs.wire.errors import ErrorCode
from tests.support.requirements import ROOT

SOURCE = Path(__file__).parent / "generator"
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-pthread")
LIBRARIES = ("-ldl",)
"""For libssl, which is opened only where a load has TLS. C libraries before glibc 2.34 have it apart."""
COMPILE_S_MAX = 120.0


def error_names() -> str:
    """A C header with the name of each error code. Slot 0 is code -1."""
    rows = "".join(f'    [{code + 1}] = "{code.name}",\n' for code in ErrorCode)
    return f"static const char *const ERROR_NAMES[] = {{\n{rows}}};\n"


def load_program(root: Path = ROOT) -> Path:
    """The compiled program, below `.tools/bench-load`. Processes that start together compile it once."""
    files = {path.name: path.read_bytes() for path in sorted(SOURCE.iterdir())} | {"error_names.h": error_names().encode()}
    content = b"\0".join(b"\0".join((name.encode(), data)) for name, data in files.items())
    digest = hashlib.sha256(content + " ".join(FLAGS + LIBRARIES).encode()).hexdigest()[:16]
    program = root / ".tools" / "bench-load" / digest / "load"
    program.parent.mkdir(parents=True, exist_ok=True)
    with open(program.parent.parent / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _compile(files, program)
    return program


def _compile(files: dict[str, bytes], program: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        raise RuntimeError("the load generator is written in C, and no cc is on PATH: apt-get install gcc libc6-dev")
    with tempfile.TemporaryDirectory(dir=program.parent) as directory:
        for name, data in files.items():
            (Path(directory) / name).write_bytes(data)
        made = Path(directory) / "load"
        argv = [compiler, *FLAGS, "-o", str(made), str(Path(directory) / "load.c"), *LIBRARIES]
        result = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=COMPILE_S_MAX)
        if result.returncode:
            raise RuntimeError(f"cc could not compile the load generator:\n{result.stderr[-4000:]}")
        os.replace(made, program)


if __name__ == "__main__":
    print(load_program())
