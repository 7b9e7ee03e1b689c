"""A class data archive of Spark's JVM: with it a JVM maps what it would parse and verify, which takes most of its start.

`python -m tests.pipeline.class_archive` makes it ahead. Otherwise the first test does, and the workers wait for it.

Classes of the packages that Spark gets by `spark.jars` are loaded as ever.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Mapping

from tests.compat.kafka.archives import SILENT, holds_for
from tests.support.requirements import ROOT

FOLDER = ROOT / ".tools" / "pipeline"
ARCHIVE = FOLDER / "spark.jsa"
STAMP = FOLDER / "pipeline.stamp"
"""Written by each installation of PySpark."""
OPTIONS = "SPARK_SUBMIT_OPTS"
PROGRAM = "tests.pipeline.archived_program"
WITHIN_S = 900.0
"""It takes a minute of CPU, and a machine with a load of 25 took longer than five."""


def with_archive(options: str, environment: Mapping[str, str]) -> str:
    """The options of JVMs, with the archive. It is made first unless it is there; test processes that begin together share it."""
    with open(ARCHIVE.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not holds_for(ARCHIVE, STAMP):
            _make(options, environment)
    return f"{options} -XX:SharedArchiveFile={ARCHIVE} {SILENT}" if ARCHIVE.stat().st_size else options


def _make(options: str, environment: Mapping[str, str]) -> None:
    """Leaves an empty file where the JVM leaves no archive: those without an archive of their own classes cannot."""
    left = ARCHIVE.with_suffix(".new")
    left.unlink(missing_ok=True)
    archiving = {**environment, OPTIONS: f"{options} -XX:ArchiveClassesAtExit={left} {SILENT}"}
    command = [sys.executable, "-m", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, env=archiving, capture_output=True, encoding="utf-8", timeout=WITHIN_S)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    left.touch()
    left.rename(ARCHIVE)


if __name__ == "__main__":
    from tests.pipeline.conftest import JVM_OF_SHORT_RUNS

    with_archive(JVM_OF_SHORT_RUNS, os.environ)
